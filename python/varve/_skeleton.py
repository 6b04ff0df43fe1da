"""A policy of Python as the beginning of one of the drive's: the file, and the line of the registry (docs/policy.md)."""

import inspect
import os
import textwrap
from typing import Any

from varve._files import write_whole
from varve._options import Option
from varve._policy import BufferPolicy

__all__ = ["twin_skeleton"]

_FILE = """//! {doc}
//!
//! Invariants: every entry is in the one queue.

use super::lists;
use crate::buffer::{{Access, Admission, Batches, Frame, List, Policy, Pool, Stream}};

/// So far a queue: what has been there longest leaves. Its twin in Python is in comments.
#[derive(Clone, Debug, Default)]
pub(super) struct {kind} {{
    queue: List,
{fields}}}

{made}impl Policy for {kind} {{
{hit}    #[inline]
    fn hit(&mut self, _: &mut Pool, _: Frame, _: &Access<'_>) {{}}
{admit}    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {{
        if pool.free() == 0
            && let Some(oldest) = self.queue.back()
        {{
            pool.unlink(&mut self.queue, oldest);
            out.evict(oldest, Stream::Other);
        }}
        Admission::Admit(0)
    }}
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {{
        pool.push_front(&mut self.queue, frame);
    }}
{discarded}    fn removed(&mut self, pool: &mut Pool, frame: Frame) {{
        pool.unlink(&mut self.queue, frame);
    }}
{flushed}    fn cleaned(&mut self, _: &mut Pool, _: Frame) {{}}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {{
        each("queue", self.queue.len());
    }}
    fn check(&self, pool: &Pool) -> Result<(), String> {{
        lists::check(pool, &[("the queue", &self.queue)], |_| 0)
    }}
}}
"""
_MADE = """impl {kind} {{
    pub fn new({parameters}) -> {kind} {{
        {kind} {{ queue: List::default(), {names} }}
    }}
}}

"""
_LINE = """mod {module};

    PolicyInfo {{
        name: "{name}",
        aliases: &[],
        doc: {doc},
        source: "",
        options: &[{options}],
        clairvoyant: false,
        make: |setup| setup.buffer({module}::{kind}::{made}),
    }},
"""
_OPTION = "PolicyOption {{ name: {name}, kind: {kind}, default: {default}, doc: {doc} }}"

# Of each kind of option: the kind in the registry, the type of its field, how the setup gives it.
_KINDS = {
    "count": ("Count(0, u64::MAX)", "u64", 'setup.count("{}")'),
    "size": ("Size", "u64", 'setup.size("{}")'),
    "share": ("Share", "usize", 'setup.share_of_entries("{}")'),
    "flag": ("Flag", "bool", 'setup.flag("{}")'),
    "word": ("Choice(&[{}])", "String", 'setup.word("{}").to_string()'),
}


def _text(text: str) -> str:
    """A text of Rust."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _commented(kind: type, name: str) -> str:
    """A method as comments, if the class has it."""
    method = getattr(kind, name)
    if method is getattr(BufferPolicy, name):
        return ""
    try:
        source = textwrap.dedent(inspect.getsource(method))
    except (OSError, TypeError):
        return ""
    return "".join(f"    // {line}".rstrip() + "\n" for line in source.splitlines())


def _option(name: str, option: Option) -> str:
    kind = _KINDS[option.kind][0].format(", ".join(map(_text, option.words)))
    return _OPTION.format(name=_text(name), kind=kind, default=_text(option.default), doc=_text(option.doc))


def twin_skeleton(policy: "type[BufferPolicy]", path: "str | os.PathLike[str] | None" = None) -> str:
    """The beginning of a policy of the drive that is to do what one of Python does: the text of the line of the registry,
    and the file, `crates/ssd/src/buffer/policies/MY_POLICY.rs` in a checkout; without a path its text follows the line.

    It compiles, and is a queue. The methods of Python stand beside those of Rust, as comments. While it becomes the policy,
    `varve.twin(MyPolicy, of="my-policy")` says where it is not yet.

    >>> class Mine(varve.BufferPolicy):
    ...     def admit(self, page, full):
    ...         return None
    >>> print(varve.twin_skeleton(Mine, "mine.rs").splitlines()[0])
    mod mine;
    """
    if not (isinstance(policy, type) and issubclass(policy, BufferPolicy)):
        raise TypeError(f"{policy!r}: expected a class of varve.BufferPolicy")
    name = policy._name()
    doc = (inspect.getdoc(policy) if policy.__doc__ else None) or f"the twin of {policy.__name__}"
    first = doc.partition("\n")[0]
    module = name.replace("-", "_")
    kinds: dict[str, Any] = {key: _KINDS[option.kind] for key, option in policy.options.items()}
    parameters = ", ".join(f"{key}: {kind[1]}" for key, kind in kinds.items())
    said = {method: _commented(policy, method) for method in ("hit", "admit", "discarded", "flushed")}
    rust = _FILE.format(
        doc=first,
        kind=policy.__name__,
        fields="".join(f"    {key}: {kind[1]},\n" for key, kind in kinds.items()),
        made=_MADE.format(kind=policy.__name__, parameters=parameters, names=", ".join(kinds)) if kinds else "",
        **said,
    )
    made = f"new({', '.join(kind[2].format(key) for key, kind in kinds.items())})" if kinds else "default()"
    options = ", ".join(_option(key, option) for key, option in policy.options.items())
    line = _LINE.format(module=module, name=name, doc=_text(first), options=options, kind=policy.__name__, made=made)
    if path is None:
        return line + "\n" + rust
    write_whole(path, rust.encode())
    return line
