//! A chat template, rendered within bounds. It is a program that came with a model from anywhere, so nothing that it says
//! may take the stack, the memory or the time of whoever talks to the model:
//!
//! - the source is measured, and refused if it is too long or nested too deep, before the parser sees it (`source`);
//! - every operation of the program passes its result through a filter that measures and counts it (`rewrite` puts the
//!   filter there, `bounds` is the filter), and what could make much of little in one step is checked first (`builtins`);
//! - instructions are counted by the engine, and the clock is looked at between operations.

mod bounds;
mod builtins;
mod json;
mod rewrite;
mod slice;
mod source;
mod time;

pub(crate) use source::names;
pub use time::today;

use crate::error::{Error, Result, TemplateCause, TemplateFailure, TemplateProblem};
use bounds::Budget;
use minijinja::machinery::{CodeGenerator, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use std::sync::Arc;
use std::thread;

/// Instructions of the engine that one rendering may take.
const STEPS: u64 = 3_000_000;
/// Enough for everything that `source` lets through, several times over.
const STACK: usize = 64 << 20;

/// The text that a template makes of values.
pub(crate) fn render(source: &str, values: &Value) -> Result<String> {
    thread::scope(|scope| {
        let work = || render_here(source, values);
        let thread = thread::Builder::new().name("chat template".to_owned()).stack_size(STACK);
        let failed = |problem| Error::Template {
            failure: TemplateFailure::Failed,
            source: TemplateCause::Problem { problem, line: None },
        };
        let handle = thread
            .spawn_scoped(scope, work)
            .map_err(|error| failed(TemplateProblem::NoThread(error.to_string())))?;
        handle.join().unwrap_or_else(|_| Err(failed(TemplateProblem::Panicked)))
    })
}

fn render_here(source: &str, values: &Value) -> Result<String> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    let invalid =
        |error: minijinja::Error| Error::Template { failure: TemplateFailure::Invalid, source: error.into() };
    let syntax = syntax.map_err(invalid)?;
    let source = &source::without_generation(source);
    source::check(source, &syntax).map_err(invalid)?;
    let parsed = parse(source, "chat", syntax).map_err(invalid)?;
    let mut code = CodeGenerator::new("chat", source);
    code.compile_stmt(&rewrite::bounded(&parsed));
    let (instructions, blocks) = code.finish();

    let budget = Arc::new(Budget::new());
    let mut environment = Environment::new();
    environment.set_fuel(Some(STEPS));
    environment.set_debug(false);
    builtins::add_to(&mut environment, &budget);
    let failed = |error: minijinja::Error| {
        let failure = match error.kind() {
            ErrorKind::OutOfFuel => TemplateFailure::TooManySteps,
            _ => TemplateFailure::Failed,
        };
        Error::Template { failure, source: error.into() }
    };
    let values = budget.made(values.clone()).map_err(failed)?;
    let mut text = String::new();
    let mut output = make_string_output(&mut text);
    eval(&environment, &instructions, values, &blocks, &mut output, AutoEscape::None).map_err(failed)?;
    drop(output);
    bounds::check_size(text.len()).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use minijinja::context;
    use std::error::Error as _;

    fn values() -> Value {
        let message = |role: &str, content: &str| context! { role, content };
        let messages = [
            message("system", "Be kind."),
            message("user", " Hi! "),
            message("assistant", "<think>a</think>\nYes."),
        ];
        context! { messages, add_generation_prompt => true, bos_token => "<s>", eos_token => "</s>" }
    }

    /// The engine without our bounds.
    fn unbounded(source: &str) -> String {
        let mut environment = Environment::new();
        environment
            .set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap());
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.render_str(source, values()).unwrap()
    }

    fn refused(source: &str) -> String {
        let start = std::time::Instant::now();
        let error = render(source, &values()).map(|text| text.len()).unwrap_err();
        let shown: String = source.chars().take(60).collect();
        assert!(start.elapsed().as_secs() < 60, "{shown} took {:?}", start.elapsed());
        format!("{error}: {}", error.source().unwrap())
    }

    #[test]
    fn a_bounded_template_says_what_an_unbounded_one_says() {
        let sources = [
            // Llama 2: the system turn inside the first question.
            "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = \
             messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}\
             {% endif %}{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}\
             {% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}\
             {% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + \
             '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + \
             content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
            // Qwen 3 and DeepSeek: namespaces, a search from the end, thoughts that are cut out.
            "{%- set ns = namespace(multi=true, last=messages|length - 1) %}\n{%- for message in messages[::-1] %}\n\
             {%- set index = (messages|length - 1) - loop.index0 %}\n{%- if ns.multi and message.role == 'user' and \
             message.content is string and not(message.content.startswith('<tool>') and \
             message.content.endswith('</tool>')) %}\n{%- set ns.multi = false %}{%- set ns.last = index %}\n\
             {%- endif %}\n{%- endfor %}\n{{ ns.last }}{% for m in messages %}{% if '</think>' in m.content %}\
             {{ m.content.split('</think>')[-1].lstrip('\\n') }}{{ m.content.split('</think>')[0].rstrip('\\n')\
             .split('<think>')[-1] }}{% else %}{{ m.content | trim }}{% endif %}{% endfor %}",
            "{% macro turn(role, text='none') %}<{{ role }}>{{ text|upper }}</{{ role }}>\n{% endmacro %}\
             {% for m in messages if m.role != 'system' %}{{ turn(m.role, text=m.content) }}{{ turn('x') }}\
             {%- if not loop.last %}, {% endif %}{{ loop.previtem.role if not loop.first }}{% endfor %}",
            "{% set x %}a{{ 1 + 2 * 3 }}b{% endset %}{{ x }}{% set y | upper | replace('A', 'é') %}a{% endset %}{{ y }}\
             {% filter trim | title %}  so it is {% endfilter %}{% with a = 1, b = [1, 2] %}{{ a }}{{ b }}{% endwith %}",
            "{{ messages|map(attribute='role')|join(', ') }}{{ messages|selectattr('role', 'equalto', 'user')|list \
             |length }}{{ (messages|first).role }}{{ messages|rejectattr('role', 'in', ['user'])|map(attribute='role') \
             |list }}{{ missing is defined }}{{ missing|default('d') }}{{ ['b', 'A', 'c']|sort }}{{ {'k': 1}|items|list }}\
             {{ {'k': 1, 'a': 2}|dictsort }}{{ 'x' in 'axb' }}{{ ', '.join(['a', 'b']) }}{{ 'a-b'.replace('-', '+', 1) }}",
            "{{ 'abcdef'[1:4] }}{{ 'abcdef'[::-2] }}{{ 'abcdef'[-2:] }}{{ 'abc'[9:] }}{{ [1, 2, 3][:-1] }}{{ (1, 2)[0] }}\
             {{ [1, 2, 3][5:1:-1] }}{{ [1, 2, 3][::-1] }}{{ 'ab' * 3 }}{{ [1] * 2 }}{{ [1] + [2] }}{{ 7 // 2 ~ 7 % 2 }}",
            "{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}\
             {% endfor %}{% macro outer() %}[{{ caller() }}]{% endmacro %}{% call outer() %}inside{% endcall %}\
             {% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}\
             {% else %}none{% endfor %}{{ -1|abs }}{{ not true }}{{ 1 < 2 < 3 }}{{ 'a' if false }}{{ 2 ** 3 }}",
            "{{ 'a\\nb\\n\\nc'|indent(2) }}{{ 'a\\nb'|indent(2, true) }}{{ 'a\\nb'|indent(width=3, first=true) }}\
             {{ '{} {:>4}'.format('a', 'b') }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{{ none }}{{ true }}{{ 1.0 }}{{ [none] }}",
        ];
        for source in sources {
            assert_eq!(render(source, &values()).unwrap(), unbounded(source), "{source}");
        }
    }

    #[test]
    fn what_transformers_adds_to_jinja_is_there() {
        let render = |source: &str| render(source, &values()).unwrap();
        // Lengths of what is not there, and empty lists of it.
        assert_eq!(render("{{ missing | length }}{{ missing | count }}{{ [1, 2] | length }}"), "002");
        assert_eq!(render("{% if missing | length > 0 %}a{% else %}b{% endif %}"), "b");
        // Marks for training change nothing, and keep the white space around them as blocks do.
        let marked =
            "{% for m in messages %}a {%- generation -%} {{ m.role }} {% endgeneration %}\nb{% endfor %}";
        let same = "{% for m in messages %}a {%- if true -%} {{ m.role }} {% endif %}\nb{% endfor %}";
        assert_eq!(render(marked), render(same));
        assert_eq!(render("{% generation %}x{% endgeneration %}{{ '{% x' }}"), "x{% x");
        assert_eq!(render("{% set a = 1 %}{% generation %}{% set a = 2 %}{% endgeneration %}{{ a }}"), "1");
        let date = render("{{ strftime_now('%Y-%m-%d') }}");
        assert!(date.len() == 10 && *date > *"2026-01-01", "{date}");
        assert_eq!(
            render("{{ [1, 2.5, none, {'a': '<b>&é\n'}] | tojson }}"),
            r#"[1, 2.5, null, {"a": "<b>&é\n"}]"#
        );
        assert_eq!(
            render("{{ {'a': [], 'b': {}, 'c': [1]} | tojson(indent=4) }}"),
            "{\n    \"a\": [],\n    \"b\": {},\n    \"c\": [\n        1\n    ]\n}"
        );
        let big = "{% set ns = namespace(s='<') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] | tojson %}{% endfor %}";
        assert!(refused(big).contains("more than 8 MiB"));
        assert!(refused("{{ 'a' | tojson(indent=9000000000) }}").contains("indent"));
        assert!(refused("{{ strftime_now('%Q') }}").contains("%Q"));
    }

    #[test]
    fn a_template_that_is_too_long_or_too_deep_is_refused_before_it_is_parsed() {
        assert!(refused(&"a".repeat((1 << 20) + 1)).contains("is invalid: it has more than 1 MiB"));
        for (start, link, end) in [
            ("{{ ", "not ", "1 }}"),
            ("{{ 1", "+1", " }}"),
            ("{{ a", ".b", " }}"),
            ("{{ a", "|upper", " }}"),
            ("{{ ", "-", "1 }}"),
            ("{{ a", "[0]", " }}"),
            ("{{ a", "()", " }}"),
            ("{{ ", "(", " }}"),
            ("{% set ", "(", " %}"),
            ("{{ ", "1 if 1 else ", "1 }}"),
            ("{{ 1", " is odd", " }}"),
            ("{{ 1", " if 1", " }}"),
            ("{% set x = [", "[], [", "] %}"),
            ("{% if a %}", "{% elif a %}", "{% endif %}"),
        ] {
            let error = refused(&format!("{start}{}{end}", link.repeat(70_000)));
            assert!(error.contains("more than 2000") || error.contains("more than 500"), "{link}: {error}");
        }
        // As deep as it may be.
        for (start, link, end) in [("{{ ", "not ", "1 }}"), ("{{ 1", "+1", " }}"), ("{{ ", "-", "1 }}")] {
            render(&format!("{start}{}{end}", link.repeat(900)), &values()).unwrap();
        }
        let long = format!("{{% set x = [{}] %}}{{{{ x|length }}}}", "'a', ".repeat(10_000));
        assert_eq!(render(&long, &values()).unwrap(), "10000");
    }

    #[test]
    fn no_template_takes_all_memory_or_time() {
        let doubling = |change: &str| {
            format!(
                "{{% set ns = namespace(s='ab', l=[1], t=(1, 2)) %}}{{% for i in range(60) %}}{{% set {change} %}}\
                 {{% endfor %}}"
            )
        };
        for change in [
            "ns.s = ns.s ~ ns.s",
            "ns.s = ns.s + ns.s",
            "ns.s = ns.s * 9",
            "ns.s = ns.s.replace('a', ns.s)",
            "ns.s = ns.s|replace('', ns.s)",
            "ns.s = ns.s.join([ns.s, ns.s])",
            "ns.s = [ns.s, ns.s]|join(ns.s)",
            "ns.s = '{0}{0}'.format(ns.s)",
            "ns.l = ns.l + ns.l",
            "ns.l = ns.l * 3",
            "ns.l = [ns.l, ns.l]",
            "ns.l = {'a': ns.l, 'b': ns.l}",
            "ns.t = ns.t + ns.t",
            "ns.t = (ns.t, ns.t)",
            "ns.s = ns|string ~ ns",
        ] {
            let error = refused(&doubling(change));
            assert!(error.contains("more than 8 MiB") || error.contains("more than 64"), "{change}: {error}");
        }
        let unrolled = |line: &str| format!("{{% set s = 'ab' %}}{}", line.repeat(60));
        refused(&unrolled("{% set s = s ~ s %}"));
        refused(&unrolled("{% set s %}{{ s }}{{ s }}{% endset %}"));
        refused(&unrolled("{% set s | replace('', 'abc') %}{{ s }}{% endset %}"));
        refused(&unrolled("{% set n = namespace(a=n, b=n) %}{% set s = n ~ '' %}"));
        let big = "{% set s = 'abcdefgh' * 900000 %}";
        for end in [
            "{{ 'a'|indent(8000000000) }}",
            "{{ ''|indent(8000000000) }}",
            "{{ '%9000000000d'|format(1) }}",
            "{{ '{:9000000000}'.format(1) }}",
            "{{ '{:{}}'.format(1, 9000000000) }}",
            "{{ [1]|batch(8000000000, 1) }}",
            "{{ [1]|slice(8000000000) }}",
            "{{ range(1000000000) }}",
            "{{ 'a' * 8000000000 }}{{ (1, 2) * 50000000 }}",
            "{{ (1, 2) * 50000000 }}",
            "{{ s }}{{ s }}",
            "{% for i in range(100) %}{% set x = s ~ i %}{% endfor %}",
            "{% for i in range(100000) %}{% set x = s[7000000] %}{% endfor %}",
            "{{ range(100000)|map('string')|list|select('in', s)|list|length }}{{ s|list }}",
            "{{ s.strip(s) }}",
            "{{ (range(50000)|map('string')|list + [s[:4000000]])|sort }}",
            "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
            "{% macro f(x) %}{{ s }}{% endmacro %}{% for i in range(99) %}{% set x = f(1) %}{% endfor %}",
            "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
            "{% include 'chat' %}",
            "{% block a %}{{ self.a() }}{% endblock %}",
            "{{ (['a'] * 1000)|map('indent', 8000000, true)|list|length }}",
            "{{ (['a'] * 1000)|map('replace', '', s)|list|length }}",
            "{{ (['a'] * 1000)|map('map', 'join', s)|list|length }}{{ s }}{{ s }}",
        ] {
            refused(&format!("{big}{end}"));
        }
        // A tower of lists would be freed by as many calls inside one another.
        let tower =
            "{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}";
        assert!(refused(tower).contains("more than 64"));
        let lazy = "{% set ns = namespace(l=[[1]]) %}{% for i in range(5000) %}{% set ns.l = ns.l|map('reverse')|list %}\
                    {% endfor %}{{ ns.l }}";
        assert_eq!(render(lazy, &values()).unwrap(), "[[1]]");
    }

    /// The reason for `rewrite`: these attacks make 16 MiB of nothing within 5,000 instructions, and no filter, function,
    /// method or formatter is called meanwhile that could stop them.
    #[test]
    fn fuel_alone_does_not_bound_what_a_template_makes() {
        let doubled = |change: &str| format!("{{% set s = 'a' %}}{}", change.repeat(24));
        let raw = "a".repeat(1 << 14);
        let captured = format!("{{% set s %}}{{% for i in range(1024) %}}{raw}{{% endfor %}}{{% endset %}}");
        for attack in [doubled("{% set s = s ~ s %}"), doubled("{% set s = s + s %}"), captured] {
            let attack = format!("{attack}{{{{ s | length }}}}");
            let mut environment = Environment::new();
            environment.set_fuel(Some(5000));
            assert_eq!(environment.render_str(&attack, ()).unwrap(), "16777216");
            assert!(refused(&attack).contains("more than 8 MiB"));
        }
    }

    #[test]
    fn a_template_cannot_take_the_bounds_away() {
        let shadow =
            "{% set minigpt_made = 1 %}{% macro minigpt_operand(x) %}{% endmacro %}{% set s = 'ab' %}";
        let error = refused(&format!("{shadow}{}", "{% set s = s ~ s %}".repeat(60)));
        assert!(error.contains("more than 8 MiB"), "{error}");
        // A namespace in itself is a copy of what it was.
        let cycle = "{% set ns = namespace(a=1) %}{% set ns.b = ns %}{% set ns.c = [ns] %}{{ ns.c }}{{ ns }}";
        let text = render(cycle, &values()).unwrap();
        assert!(text.starts_with("[{'a': 1, 'b': {'a': 1}}]"), "{text}");
    }
}
