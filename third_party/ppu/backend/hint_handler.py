"""What the PPU's hints mean: their names and values, and what each does to the operation it is for.

Hints come here from the code generator (``triton/compiler/hint_code_generator.py``), one hook per
moment.  Most become an argument or an attribute that the base's compiler already honours;
`shared_memory` leaves a note on the load for `hint_lowering.py`, which sees the whole kernel.
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from triton.backends.ppu import _native, hint_lowering, knobs
from triton.compiler.hint_manager import BaseHintHandler

__all__ = ["HINTS", "HintKind", "PPUHintHandler"]

# Raised whenever the same hint comes to mean something else, or the parser reads a comment
# differently: the compilation cache must then not answer with the old binary.
VERSION = 1

# More buffers than this exceed the shared memory of every chip for any useful tile.
MOST_BUFFERS = 16
# Unrolling further only multiplies code: the base's unroller copies the body this many times.
MOST_UNROLLING = 64

LOAD, STORE, LOOP = "tl.load of a tensor", "tl.store of a tensor", "for loop over a range"


def _integer(least: int, most: int) -> Callable[[str], str | None]:
    """A check that a value is an integer from `least` to `most`."""

    def check(value: str) -> str | None:
        if value.isdecimal() and least <= int(value[:9]) <= most and len(value) < 10:
            return None
        return f"an integer from {least} to {most}"

    return check


def _choice(*choices: str) -> Callable[[str], str | None]:
    """A check that a value is one of `choices`."""
    return lambda value: None if value in choices else "one of " + ", ".join(choices)


@dataclass(frozen=True)
class HintKind:
    """One hint: `name`, the operations it is for (`subjects`), and its value.

    `check` returns None for a value that is fine and else says what a fine one is; `needs_value`
    is false where the hint may stand alone.
    """

    name: str
    subjects: tuple[str, ...]
    check: Callable[[str], str | None]
    needs_value: bool = True


# Where the base has a name for the same thing, that is the hint's name.
HINTS: dict[str, HintKind] = {
    kind.name: kind
    for kind in (
        HintKind("shared_memory", (LOAD,), _integer(1, MOST_BUFFERS), needs_value=False),
        HintKind("cache_modifier", (LOAD, STORE), _choice("cg", "cs", "wt")),
        HintKind("eviction_policy", (LOAD, STORE), _choice("evict_first", "evict_last")),
        HintKind("num_stages", (LOOP,), _integer(1, MOST_BUFFERS)),
        HintKind("loop_unroll_factor", (LOOP,), _integer(2, MOST_UNROLLING)),
    )
}

# The cache modifiers that change the code, per kind of operation. Of the others that the base
# accepts, ca and wb are what the hardware does anyway, and cv is dropped by the base's lowering.
CACHE_MODIFIERS = {LOAD: ("cg",), STORE: ("cg", "cs", "wt")}

# Words that people write for a hint of ours.
SYNONYMS = {
    "unroll": "loop_unroll_factor",
    "unroll_factor": "loop_unroll_factor",
    "pipeline": "num_stages",
    "stages": "num_stages",
    "cache": "cache_modifier",
    "evict": "eviction_policy",
    "smem": "shared_memory",
    "shared": "shared_memory",
}

# Hints of FlagTree's other backends, which have no meaning on this one.
FOREIGN = {"dot_pad_only_k": "Ascend", "bind_sub_block": "Ascend"}

# The name under which a loop that carries hints finds ``tl.range``; no Python name looks like it.
RANGE_NAME = "<tl.range>"


def _copies_asynchronously(options: Any) -> bool:
    """Whether the tool chain of these options makes asynchronous copies and pipelines loops.

    With the PPU SDK it takes T-Head's own passes: the encoding of its copies is not public.
    """
    from triton.backends.ppu import sdk_compiler

    return (
        not isinstance(options, sdk_compiler.HGGCOptions)
        or sdk_compiler.vendor_passes() is not None
    )


def _nearest(name: str) -> str:
    """The hint most like `name`, as the end of a sentence; the names there are where none is."""
    near = SYNONYMS.get(name) or next(iter(difflib.get_close_matches(name, HINTS, 1, 0.6)), None)
    if near is not None:
        return f"did you mean '{near}'?"
    return "the hints are " + ", ".join(HINTS)


def _text(value: Any) -> str:
    """An optional argument of tl.load or tl.store as text, empty where it says nothing."""
    return str(getattr(value, "value", value) or "")


class PPUHintHandler(BaseHintHandler):
    """The PPU's hint handler; each public method is a hook."""

    def hint_mode(self) -> str:
        """How hints are treated, from ``triton.knobs.ppu.hints`` (``FLAGTREE_HINTS``)."""
        return knobs.active().hints

    def hint_cache_key(self) -> str:
        """What the hints contribute to the key of the compilation cache, for `PPUBackend.hash`.

        The hints themselves are source text and so in the key already.  This adds the version of
        their meaning and, where it is not the default, the mode: a kernel compiled with hints off
        must not answer for one with hints on, nor one that was only warned about for
        ``FLAGTREE_HINTS=error``.
        """
        mode = self.hint_mode()
        return f"hints{VERSION}" + ("" if mode == "warn" else f"-{mode}")

    def hint_parse(self, source: bytes) -> Any:
        """The hints and the problems of UTF-8 encoded source, by lib/Hint."""
        return _native.hint.parse(source)

    def hint_check(self, hint: Any) -> str | None:
        """Why `hint` can never be obeyed: its name is unknown or its value is wrong."""
        kind = HINTS.get(hint.name)
        if kind is None:
            if hint.name in FOREIGN:
                return (
                    f"hint '{hint.name}' is one of FlagTree's {FOREIGN[hint.name]} backend and "
                    "means nothing on the PPU"
                )
            return f"unknown hint '{hint.name}'; {_nearest(hint.name)}"
        if hint.value is None:
            if not kind.needs_value:
                return None
            return f"hint '{hint.name}' needs a value ('{hint.name}=...'), {kind.check('')}"
        expected = kind.check(hint.value)
        if expected is not None:
            return f"hint '{hint.name}={hint.value}': the value must be {expected}"
        return None

    def hint_subject(self, hint: Any) -> str:
        """What `hint` is for, to be named where there is no such operation."""
        return " or ".join(HINTS[hint.name].subjects)

    def hint_loop(self, generator: Any, node: ast.For, hints: list[Any]) -> ast.For:
        """Gives the loop's hints to the base as arguments of ``tl.range``."""
        import builtins

        import triton.language as tl

        wanted = [hint for hint in hints if LOOP in HINTS[hint.name].subjects]
        if not wanted or not isinstance(node.iter, ast.Call):
            return node
        iterator = generator.visit(node.iter.func)
        if iterator not in (builtins.range, tl.range):
            for hint in wanted:
                hint.refuse("a tl.static_range loop is unrolled completely")
            return node
        given = {keyword.arg for keyword in node.iter.keywords}
        keywords = list(node.iter.keywords)
        for hint in wanted:
            if hint.name in given:
                hint.refuse(f"the loop already says {hint.name}=")
                continue
            if hint.name == "num_stages" and not _copies_asynchronously(generator.builder.options):
                hint.refuse("this tool chain pipelines no loops")
                continue
            keywords.append(ast.keyword(arg=hint.name, value=ast.Constant(int(hint.value))))
            hint.apply()
        generator.gscope[RANGE_NAME] = tl.range
        hinted = copy.copy(node)
        hinted.iter = ast.copy_location(
            ast.Call(ast.Name(RANGE_NAME, ast.Load()), node.iter.args, keywords), node.iter
        )
        return ast.fix_missing_locations(hinted)

    def hint_call(
        self, generator: Any, hints: list[Any], function: Any, args: Any, keywords: Any
    ) -> None:
        """Gives cache and eviction advice to tl.load and tl.store as their own arguments."""
        subject = self._subject_of(function)
        if subject is None:
            return
        # Where the two stand among the positional arguments.
        positions = {"cache_modifier": 5 if subject == LOAD else 4}
        positions["eviction_policy"] = positions["cache_modifier"] + 1
        given = [
            name
            for name, position in positions.items()
            if _text(keywords.get(name)) or len(args) > position
        ]
        copied = subject == LOAD and any(hint.name == "shared_memory" for hint in hints)
        for hint in hints:
            if hint.name not in positions:
                continue
            if hint.name == "cache_modifier" and hint.value not in CACHE_MODIFIERS[subject]:
                # On a line that loads and stores, write-through is for the store alone.
                hint.misfit(f"{subject} takes {', '.join(CACHE_MODIFIERS[subject])}")
            elif copied:
                hint.refuse("a copy to shared memory takes no such advice")
            elif hint.name in given:
                hint.refuse(f"the call already says {hint.name}=")
            elif given:
                # PTX has no instruction with both.
                hint.refuse("cache_modifier and eviction_policy exclude each other")
            else:
                is_cache = hint.name == "cache_modifier"
                keywords[hint.name] = f".{hint.value}" if is_cache else hint.value
                given.append(hint.name)
                hint.apply()

    def hint_result(
        self,
        generator: Any,
        hints: list[Any],
        function: Any,
        args: Any,
        keywords: Any,
        result: Any,
    ) -> None:
        """Leaves notes for `hint_lowering` on the load that was just made."""
        if function is not None and self._subject_of(function) == LOAD:
            for hint in hints:
                if hint.applied and hint.name in ("cache_modifier", "eviction_policy"):
                    hint_lowering.mark_advised_load(generator, result, hint.name, hint.place)
        hint = next((hint for hint in hints if hint.name == "shared_memory"), None)
        if hint is None:
            return
        if getattr(function, "__name__", "") == "load" and self._subject_of(function) is None:
            hint.refuse("a tensor descriptor's load is staged by the compiler itself")
            return
        if self._subject_of(function) != LOAD:
            return
        pointer = args[0] if args else keywords["pointer"]
        if not result.type.is_block():
            hint.refuse("the load is of a scalar")
        elif not pointer.type.is_block():
            hint.refuse("the load is through a block pointer; load from a tensor of pointers")
        elif _text(keywords.get("volatile")) or len(args) > 7:
            hint.refuse("the load is volatile")
        elif _text(keywords.get("cache_modifier")) == ".cv":
            hint.refuse("the load must not be cached (cache_modifier .cv)")
        else:
            hint_lowering.mark_load(
                generator,
                result,
                depth=None if hint.value is None else int(hint.value),
                place=hint.place,
            )
            hint.apply()

    def _subject_of(self, function: Any) -> str | None:
        """Whether `function` is tl.load or tl.store."""
        import triton.language as tl

        return LOAD if function is tl.load else STORE if function is tl.store else None

    def hint_ttir(self, module: Any, options: Any) -> Any:
        """Called with the kernel's IR after the ``ttir`` stage, all calls inlined."""
        if _copies_asynchronously(options):
            hint_lowering.pipeline_marked_loads(module, options)
        return module

    def hint_ttgir(self, module: Any, options: Any) -> Any:
        """Called with the kernel's IR after the ``ttgir`` stage, layouts assigned."""
        return hint_lowering.stage_marked_loads(
            module,
            asynchronous=_copies_asynchronously(options),
            as_error=self.hint_mode() == "error",
        )
