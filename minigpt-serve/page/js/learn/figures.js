// All figures of the chapters by name; each is `(ctx) => nodes`, living on the loaded model where
// there is one.
import * as text from "./figures/text.js";
import * as vectors from "./figures/vectors.js";
import * as attention from "./figures/attention.js";
import * as alone from "./figures/alone.js";
import * as depth from "./figures/depth.js";
import * as learning from "./figures/learning.js";
import * as speaking from "./figures/speaking.js";

export const FIGURES = {
  ...text,
  ...vectors,
  ...attention,
  ...alone,
  ...depth,
  ...learning,
  ...speaking,
};
