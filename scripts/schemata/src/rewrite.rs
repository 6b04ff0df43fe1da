//! One file's mutants: where they are in its syntax, and the text with all of them.
//!
//! Places that change are ranges of bytes, one in the other or apart; each is written with the ranges inside it
//! already written.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Block, Expr, ExprBinary, ExprUnary, ImplItemFn, ItemFn, Signature, TraitItemFn};

use crate::{Mutant, Place};

/// What is written in a place's stead.
enum Kind {
    /// At the beginning of a body.
    Body,
    /// `L op R`.
    Binary { left: Range<usize>, op: String, right: Range<usize> },
    /// `op E`.
    Unary { operand: Range<usize> },
    /// After the pattern of an arm without a guard.
    NoGuard,
    /// A guard.
    Guard,
}

struct Site<'a> {
    range: Range<usize>,
    kind: Kind,
    mutants: Vec<&'a Mutant>,
    inside: Vec<Site<'a>>,
}

struct Finder<'a> {
    /// Of those that were not found yet, by where they begin.
    wanted: BTreeMap<Place, Vec<&'a Mutant>>,
    sites: Vec<Site<'a>>,
    /// In a place where nothing is decided at run time.
    fixed: usize,
}

fn place(at: LineColumn) -> Place {
    Place { line: at.line, column: at.column + 1 }
}

fn bytes(of: &impl Spanned) -> Range<usize> {
    of.span().byte_range()
}

/// The text with all mutants that have a place, and their ids.
pub fn rewrite(text: &str, mutants: &[Mutant]) -> syn::Result<(String, Vec<u32>)> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { wanted: BTreeMap::new(), sites: Vec::new(), fixed: 0 };
    for mutant in mutants {
        finder.wanted.entry(mutant.span.start).or_default().push(mutant);
    }
    finder.visit_file(&file);
    let placed =
        finder.sites.iter().flat_map(|site| &site.mutants).map(|mutant| mutant.id).collect();
    let mut flat = finder.sites;
    // Outer before inner; of two of one range the one found first, for it is the outer.
    flat.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end)));
    let mut flat = flat.into_iter().peekable();
    let mut sites = Vec::new();
    while let Some(site) = flat.next() {
        sites.push(nested(site, &mut flat));
    }
    Ok((written(text, 0..text.len(), &sites), placed))
}

fn nested<'a>(
    mut site: Site<'a>,
    rest: &mut std::iter::Peekable<std::vec::IntoIter<Site<'a>>>,
) -> Site<'a> {
    while let Some(next) =
        rest.next_if(|next| next.range.start < site.range.end && next.range.end <= site.range.end)
    {
        let next = nested(next, rest);
        site.inside.push(next);
    }
    site
}

fn written(text: &str, range: Range<usize>, sites: &[Site<'_>]) -> String {
    let mut out = String::new();
    let mut at = range.start;
    for site in
        sites.iter().filter(|site| range.start <= site.range.start && site.range.end <= range.end)
    {
        out.push_str(&text[at..site.range.start]);
        out.push_str(&site.written(text));
        at = site.range.end;
    }
    out.push_str(&text[at..range.end]);
    out
}

fn on(mutant: &Mutant) -> String {
    format!("::mutation::on({})", mutant.id)
}

impl Site<'_> {
    fn written(&self, text: &str) -> String {
        let part = |range: &Range<usize>| written(text, range.clone(), &self.inside);
        match &self.kind {
            Kind::Body => {
                let returns = |m: &&Mutant| {
                    format!(" if {} {{ return {}; }}", on(m), one_line(&m.replacement))
                };
                self.mutants.iter().map(returns).collect()
            }
            Kind::Unary { operand } => {
                let operand = part(operand);
                let whole = &text[self.range.start..self.range.start + 1];
                // There is one way to delete an operator.
                format!("(if {} {{ {operand} }} else {{ {whole}{operand} }})", on(self.mutants[0]))
            }
            Kind::NoGuard => format!(" if !{}", on(self.mutants[0])),
            Kind::Guard => {
                let mut guard = format!("({})", part(&self.range));
                for mutant in &self.mutants {
                    let on = on(mutant);
                    guard = match (mutant.genre.as_str(), mutant.replacement.as_str()) {
                        ("MatchArmGuard", "true") => format!("({on} || {guard})"),
                        _ => format!("(!{on} && {guard})"),
                    };
                }
                guard
            }
            Kind::Binary { left, op, right } => self.binary(&part(left), op, &part(right)),
        }
    }

    fn binary(&self, left: &str, op: &str, right: &str) -> String {
        if op == "&&" || op == "||" {
            // One mutant each: the other of the two. `a || b` is `!(!a && !b)`.
            let on = on(self.mutants[0]);
            return format!("(((({left}) ^ {on}) {op} (({right}) ^ {on})) ^ {on})");
        }
        let assigns = op.ends_with('=') && !matches!(op, "==" | "!=" | "<=" | ">=");
        if assigns {
            let mut out = String::new();
            for mutant in &self.mutants {
                out +=
                    &format!("if {} {{ {left} {} {right} }} else ", on(mutant), mutant.replacement);
            }
            return format!("({out}{{ {left} {op} {right} }})");
        }
        let compares = matches!(op, "==" | "!=" | "<" | "<=" | ">" | ">=");
        let (borrow, deref) = if compares { ("&", "*") } else { ("", "") };
        let mut out = String::new();
        for mutant in &self.mutants {
            out += &format!(
                "if {} {{ {deref}l__ {} {deref}r__ }} else ",
                on(mutant),
                mutant.replacement
            );
        }
        format!(
            "(match ({borrow}({left}), {borrow}({right})) {{ (l__, r__) => {out}{{ {deref}l__ {op} {deref}r__ }} }})"
        )
    }
}

/// Bodies are written on the line where they begin, so that no line moves.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

impl<'a> Finder<'a> {
    /// Takes the mutants of a genre that begin here.
    fn take(&mut self, at: Place, genre: &str) -> Vec<&'a Mutant> {
        let Some(here) = self.wanted.get_mut(&at) else { return Vec::new() };
        let (found, rest) = here.iter().partition(|mutant| mutant.genre == genre);
        *here = rest;
        found
    }

    fn add(&mut self, range: Range<usize>, kind: Kind, mutants: Vec<&'a Mutant>) {
        if !mutants.is_empty() && self.fixed == 0 {
            self.sites.push(Site { range, kind, mutants, inside: Vec::new() });
        }
    }

    fn body(&mut self, signature: &Signature, block: &Block) {
        if let Some(first) = block.stmts.first() {
            let found = self.take(place(first.span().start()), "FnValue");
            let open = block.brace_token.span.open().byte_range().end;
            if signature.constness.is_none() && signature.asyncness.is_none() {
                self.add(open..open, Kind::Body, found);
            }
        }
    }

    fn within(&mut self, fixed: bool, visit: impl FnOnce(&mut Self)) {
        self.fixed += usize::from(fixed);
        visit(self);
        self.fixed -= usize::from(fixed);
    }
}

/// Whether it holds a `let` that its condition binds.
fn binds(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(both) => binds(&both.left) || binds(&both.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, f: &'ast ItemFn) {
        self.body(&f.sig, &f.block);
        self.within(f.sig.constness.is_some(), |all| visit::visit_item_fn(all, f));
    }
    fn visit_impl_item_fn(&mut self, f: &'ast ImplItemFn) {
        self.body(&f.sig, &f.block);
        self.within(f.sig.constness.is_some(), |all| visit::visit_impl_item_fn(all, f));
    }
    fn visit_trait_item_fn(&mut self, f: &'ast TraitItemFn) {
        if let Some(block) = &f.default {
            self.body(&f.sig, block);
        }
        self.within(f.sig.constness.is_some(), |all| visit::visit_trait_item_fn(all, f));
    }
    fn visit_item_const(&mut self, c: &'ast syn::ItemConst) {
        self.within(true, |all| visit::visit_item_const(all, c));
    }
    fn visit_impl_item_const(&mut self, c: &'ast syn::ImplItemConst) {
        self.within(true, |all| visit::visit_impl_item_const(all, c));
    }
    fn visit_trait_item_const(&mut self, c: &'ast syn::TraitItemConst) {
        self.within(true, |all| visit::visit_trait_item_const(all, c));
    }
    fn visit_item_static(&mut self, s: &'ast syn::ItemStatic) {
        self.within(true, |all| visit::visit_item_static(all, s));
    }
    fn visit_type_array(&mut self, t: &'ast syn::TypeArray) {
        self.within(true, |all| visit::visit_type_array(all, t));
    }
    fn visit_expr_const(&mut self, c: &'ast syn::ExprConst) {
        self.within(true, |all| visit::visit_expr_const(all, c));
    }
    fn visit_expr_repeat(&mut self, r: &'ast syn::ExprRepeat) {
        self.visit_expr(&r.expr);
        self.within(true, |all| all.visit_expr(&r.len));
    }
    fn visit_expr_binary(&mut self, both: &'ast ExprBinary) {
        let mutants = self.take(place(both.op.span().start()), "BinaryOperator");
        let op = both.op.span().source_text().unwrap_or_default();
        let logic = op == "&&" || op == "||";
        if !op.is_empty() && !(logic && (binds(&both.left) || binds(&both.right))) {
            let kind = Kind::Binary { left: bytes(&both.left), op, right: bytes(&both.right) };
            self.add(bytes(both), kind, mutants);
        }
        visit::visit_expr_binary(self, both);
    }
    fn visit_expr_unary(&mut self, one: &'ast ExprUnary) {
        let mutants = self.take(place(one.op.span().start()), "UnaryOperator");
        self.add(bytes(one), Kind::Unary { operand: bytes(&one.expr) }, mutants);
        visit::visit_expr_unary(self, one);
    }
    fn visit_arm(&mut self, arm: &'ast Arm) {
        let mut mutants = self.take(place(arm.span().start()), "MatchArm");
        match &arm.guard {
            Some((_, guard)) => {
                mutants.extend(self.take(place(guard.span().start()), "MatchArmGuard"));
                if !binds(guard) {
                    self.add(bytes(&**guard), Kind::Guard, mutants);
                }
            }
            None => {
                let end = bytes(&arm.pat).end;
                self.add(end..end, Kind::NoGuard, mutants);
            }
        }
        visit::visit_arm(self, arm);
    }
}
