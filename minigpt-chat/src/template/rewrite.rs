//! The parsed template with a filter around every operation: [`MADE`] measures and counts what an operation makes,
//! [`OPERAND`] makes sure that what an operation takes can't change meanwhile. Filters, because a template can't give
//! their names another meaning. The tree is built anew: the engine's can't be changed in place.
//!
//! The engine's own bounds are not enough, so this can't go. Fuel counts instructions, whatever they make, and neither `~`
//! and `+`, nor lists, nor captured text call anything that a program using the engine may replace: `{% set s = s ~ s %}` doubles
//! a text per instruction (see the test `fuel_alone_does_not_bound_what_a_template_makes`). An allocator with a limit could only
//! abort the process.

use super::bounds::{MADE, OPERAND};
use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::*;

pub(super) fn bounded<'a>(template: &Stmt<'a>) -> Stmt<'a> {
    statement(template)
}

fn filter<'a>(name: &'static str, expr: Expr<'a>, span: Span) -> Expr<'a> {
    Expr::Filter(Spanned::new(Filter { name, expr: Some(expr), args: Vec::new() }, span))
}

/// What an operation takes.
fn operand<'a>(expr: &Expr<'a>) -> Expr<'a> {
    filter(OPERAND, value(expr), expr.span())
}

/// What a container takes. A constant is as large as its source.
fn items<'a>(exprs: &[Expr<'a>]) -> Vec<Expr<'a>> {
    let item = |expr: &Expr<'a>| if matches!(expr, Expr::Const(_)) { value(expr) } else { operand(expr) };
    exprs.iter().map(item).collect()
}

/// A value as it is: for a name, where a namespace must stay one.
fn value<'a>(expr: &Expr<'a>) -> Expr<'a> {
    let span = expr.span();
    let made = |expr| filter(MADE, expr, span);
    match expr {
        Expr::Var(var) => Expr::Var(Spanned::new(Var { id: var.id }, span)),
        Expr::Const(constant) => Expr::Const(Spanned::new(Const { value: constant.value.clone() }, span)),
        Expr::Slice(slice) => {
            let bound = |bound: &Option<Expr<'a>>| {
                let none = || Expr::Const(Spanned::new(Const { value: Value::from(()) }, span));
                CallArg::Pos(bound.as_ref().map_or_else(none, operand))
            };
            let args = vec![bound(&slice.start), bound(&slice.stop), bound(&slice.step)];
            let slice = Filter { name: super::builtins::PART, expr: Some(operand(&slice.expr)), args };
            made(Expr::Filter(Spanned::new(slice, span)))
        }
        Expr::UnaryOp(unary) => {
            let negates = matches!(unary.op, UnaryOpKind::Neg);
            let op = if negates { UnaryOpKind::Neg } else { UnaryOpKind::Not };
            Expr::UnaryOp(Spanned::new(UnaryOp { op, expr: operand(&unary.expr) }, span))
        }
        Expr::BinOp(binary) => {
            let factor = |expr| match binary.op {
                BinOpKind::Mul => filter(super::builtins::FACTOR, operand(expr), span),
                _ => operand(expr),
            };
            let (left, right) = (factor(&binary.left), factor(&binary.right));
            made(Expr::BinOp(Spanned::new(BinOp { op: binary.op, left, right }, span)))
        }
        Expr::Compare(compare) => {
            let ops = compare.ops.iter().map(|op| CompareOp { op: op.op, expr: operand(&op.expr) }).collect();
            Expr::Compare(Spanned::new(Compare { expr: operand(&compare.expr), ops }, span))
        }
        Expr::IfExpr(choice) => {
            let choice = IfExpr {
                test_expr: operand(&choice.test_expr),
                true_expr: value(&choice.true_expr),
                false_expr: choice.false_expr.as_ref().map(value),
            };
            Expr::IfExpr(Spanned::new(choice, span))
        }
        Expr::Filter(used) => {
            let (expr, args) = (used.expr.as_ref().map(operand), arguments(&used.args, operand));
            made(Expr::Filter(Spanned::new(Filter { name: used.name, expr, args }, span)))
        }
        Expr::Test(test) => {
            let (expr, args) = (operand(&test.expr), arguments(&test.args, operand));
            Expr::Test(Spanned::new(Test { name: test.name, expr, args }, span))
        }
        Expr::GetAttr(get) => Expr::GetAttr(attribute(get)),
        Expr::GetItem(get) => {
            let (expr, subscript_expr) = (value(&get.expr), operand(&get.subscript_expr));
            Expr::GetItem(Spanned::new(GetItem { expr, subscript_expr }, span))
        }
        Expr::Call(used) => made(Expr::Call(call(used))),
        Expr::List(list) => made(Expr::List(Spanned::new(List { items: items(&list.items) }, span))),
        Expr::Tuple(tuple) => made(Expr::Tuple(Spanned::new(Tuple { items: items(&tuple.items) }, span))),
        Expr::Map(map) => {
            let map = Map { keys: items(&map.keys), values: items(&map.values) };
            made(Expr::Map(Spanned::new(map, span)))
        }
    }
}

fn attribute<'a>(get: &Spanned<GetAttr<'a>>) -> Spanned<GetAttr<'a>> {
    Spanned::new(GetAttr { expr: value(&get.expr), name: get.name }, get.span())
}

/// A call keeps its shape: the engine knows a function, a method or a block by it.
fn call<'a>(call: &Spanned<Call<'a>>) -> Spanned<Call<'a>> {
    let expr = match &call.expr {
        Expr::GetAttr(get) => Expr::GetAttr(attribute(get)),
        expr => value(expr),
    };
    Spanned::new(Call { expr, args: arguments(&call.args, value) }, call.span())
}

fn arguments<'a>(args: &[CallArg<'a>], each: fn(&Expr<'a>) -> Expr<'a>) -> Vec<CallArg<'a>> {
    let argument = |arg: &CallArg<'a>| match arg {
        CallArg::Pos(expr) => CallArg::Pos(each(expr)),
        CallArg::Kwarg(name, expr) => CallArg::Kwarg(name, each(expr)),
        CallArg::PosSplat(expr) => CallArg::PosSplat(operand(expr)),
        CallArg::KwargSplat(expr) => CallArg::KwargSplat(operand(expr)),
    };
    args.iter().map(argument).collect()
}

/// What is assigned to. The engine assigns to names, attributes of names, and lists of these.
fn target<'a>(expr: &Expr<'a>) -> Expr<'a> {
    match expr {
        Expr::List(list) => {
            let items = list.items.iter().map(target).collect();
            Expr::List(Spanned::new(List { items }, list.span()))
        }
        expr => value(expr),
    }
}

/// A value for a target: a namespace may get a name, but never lies inside another.
fn assigned<'a>(to: &Expr<'a>, expr: &Expr<'a>) -> Expr<'a> {
    if matches!(to, Expr::Var(_)) { value(expr) } else { operand(expr) }
}

fn body<'a>(statements: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    statements.iter().map(statement).collect()
}

fn statement<'a>(statement: &Stmt<'a>) -> Stmt<'a> {
    match statement {
        Stmt::Template(node) => {
            Stmt::Template(Spanned::new(Template { children: body(&node.children) }, node.span()))
        }
        Stmt::EmitExpr(node) => {
            Stmt::EmitExpr(Spanned::new(EmitExpr { expr: operand(&node.expr) }, node.span()))
        }
        // As a value, because only values pass the formatter, which counts what is written.
        Stmt::EmitRaw(node) => {
            let expr = Expr::Const(Spanned::new(Const { value: Value::from(node.raw) }, node.span()));
            Stmt::EmitExpr(Spanned::new(EmitExpr { expr }, node.span()))
        }
        Stmt::ForLoop(node) => {
            let new = ForLoop {
                target: target(&node.target),
                iter: operand(&node.iter),
                filter_expr: node.filter_expr.as_ref().map(operand),
                recursive: node.recursive,
                body: body(&node.body),
                else_body: body(&node.else_body),
            };
            Stmt::ForLoop(Spanned::new(new, node.span()))
        }
        Stmt::IfCond(node) => {
            let (true_body, false_body) = (body(&node.true_body), body(&node.false_body));
            let new = IfCond { expr: operand(&node.expr), true_body, false_body };
            Stmt::IfCond(Spanned::new(new, node.span()))
        }
        Stmt::WithBlock(node) => {
            let assignments = node.assignments.iter().map(|(to, expr)| (target(to), assigned(to, expr)));
            let new = WithBlock { assignments: assignments.collect(), body: body(&node.body) };
            Stmt::WithBlock(Spanned::new(new, node.span()))
        }
        Stmt::Set(node) => {
            let new = Set { target: target(&node.target), expr: assigned(&node.target, &node.expr) };
            Stmt::Set(Spanned::new(new, node.span()))
        }
        Stmt::SetBlock(node) => {
            let new = SetBlock {
                target: target(&node.target),
                filter: Some(captured(node.filter.as_ref(), node.span())),
                body: body(&node.body),
            };
            Stmt::SetBlock(Spanned::new(new, node.span()))
        }
        Stmt::AutoEscape(node) => {
            let new = AutoEscape { enabled: operand(&node.enabled), body: body(&node.body) };
            Stmt::AutoEscape(Spanned::new(new, node.span()))
        }
        Stmt::FilterBlock(node) => {
            let new =
                FilterBlock { filter: captured(Some(&node.filter), node.span()), body: body(&node.body) };
            Stmt::FilterBlock(Spanned::new(new, node.span()))
        }
        Stmt::Block(node) => {
            let new = Block { name: node.name, required: node.required, body: body(&node.body) };
            Stmt::Block(Spanned::new(new, node.span()))
        }
        Stmt::Import(node) => {
            let new = Import { expr: operand(&node.expr), name: value(&node.name) };
            Stmt::Import(Spanned::new(new, node.span()))
        }
        Stmt::FromImport(node) => {
            let names = node.names.iter().map(|(name, alias)| (value(name), alias.as_ref().map(value)));
            let new = FromImport { expr: operand(&node.expr), names: names.collect() };
            Stmt::FromImport(Spanned::new(new, node.span()))
        }
        Stmt::Extends(node) => {
            Stmt::Extends(Spanned::new(Extends { name: operand(&node.name) }, node.span()))
        }
        Stmt::Include(node) => {
            let new = Include { name: operand(&node.name), ignore_missing: node.ignore_missing };
            Stmt::Include(Spanned::new(new, node.span()))
        }
        Stmt::Macro(node) => Stmt::Macro(function(node)),
        Stmt::CallBlock(node) => {
            let new = CallBlock { call: call(&node.call), macro_decl: function(&node.macro_decl) };
            Stmt::CallBlock(Spanned::new(new, node.span()))
        }
        Stmt::Continue(node) => Stmt::Continue(Spanned::new(Continue, node.span())),
        Stmt::Break(node) => Stmt::Break(Spanned::new(Break, node.span())),
        Stmt::Do(node) => Stmt::Do(Spanned::new(Do { call: call(&node.call) }, node.span())),
    }
}

fn function<'a>(node: &Spanned<Macro<'a>>) -> Spanned<Macro<'a>> {
    let args = node.args.iter().map(value).collect();
    let defaults = node.defaults.iter().map(value).collect();
    Spanned::new(Macro { name: node.name, args, defaults, body: body(&node.body) }, node.span())
}

/// The filters of a captured text. The innermost has no expression of its own: the text is on the engine's stack.
fn captured<'a>(filters: Option<&Expr<'a>>, span: Span) -> Expr<'a> {
    let mut expr = filters;
    let mut chain = Vec::new();
    while let Some(Expr::Filter(node)) = expr {
        chain.push(node);
        expr = node.expr.as_ref();
    }
    let measured = Expr::Filter(Spanned::new(Filter { name: MADE, expr: None, args: Vec::new() }, span));
    chain.into_iter().rev().fold(measured, |inner, node| {
        let args = arguments(&node.args, operand);
        let outer = Filter { name: node.name, expr: Some(inner), args };
        filter(MADE, Expr::Filter(Spanned::new(outer, span)), span)
    })
}
