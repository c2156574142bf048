// What a tab is called. Pure.

/**
 * The place or the view, then what it shows: the runs of the training, or else the model.
 * `runs` are those that the training shows; before it knows them, those of the address.
 */
export function titleOf({ place, params }, { name, model, runs }) {
  const named = params.runs?.split(",").filter(Boolean) ?? [];
  const shown = place === "training" ? (runs ?? named).join(", ") : model?.id;
  return [name, shown, "MiniGPT"].filter(Boolean).join(" · ");
}
