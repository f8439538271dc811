"""How `shared_memory` reaches the code: from a note on a load, through the stages, to a copy.

The note is a string attribute, because the base's Python bindings read no other kind back.  It
says how many buffers are wanted and where the hint stands, and takes part in three steps:

1. `mark_load` leaves it on the load when the kernel is generated.
2. `pipeline_marked_loads`, after ``ttir``: a load directly in a ``for`` gets the base's own
   attribute ``tt.latency``, from which the base's pipeliner makes asynchronous copies into as many
   buffers.  A loop with that attribute is no longer judged by the base, so the loads that it
   would have pipelined by itself get theirs as well.
3. `stage_marked_loads`, after ``ttgir``: a load that was not the pipeliner's is copied to shared
   memory and read from there where it is used.  One that the pipeliner could not take is reported.

Loads with cache or eviction advice carry a note as well: a load that the base's pipeliner made an
asynchronous copy of has lost the advice, which is then reported.

A kernel without such hints is recognized by the module's attribute and not walked.
"""

from __future__ import annotations

import dataclasses
import linecache
import re
from collections.abc import Iterator
from typing import Any

from triton._C.libtriton import gluon_ir, ir, passes  # type: ignore[attr-defined]
from triton.compiler.hint_diagnostics import HintDiagnostic, HintPlace, report

__all__ = ["mark_load", "pipeline_marked_loads", "stage_marked_loads"]

# On the load, and on the module that has such loads. MLIR wants a known dialect's prefix.
NOTE = "tt.hint_shared_memory"
MODULE_NOTE = "tt.hint_marked_loads"
# On a load with cache or eviction advice, and on the module, one line per such load.
ADVICE_NOTE = "tt.hint_advice"

# The smallest piece that cp.async copies: 4 bytes.
ASYNC_BYTES = 4
# What one row of the 32 banks holds, and what one thread reads at once, in bytes.
BANK_ROW_BYTES = 128
VECTOR_BYTES = 16

# Operations that may write global memory or order memory accesses. A copy in flight must have
# arrived before them, as the load that it stands for would have.
BARRIERS = (
    "tt.store",
    "tt.atomic_",
    "tt.descriptor_",
    "tt.call",
    "tt.print",
    "tt.elementwise_inline_asm",
    "ttng.",
    "nvvm.",
    "gpu.barrier",
    "ttg.barrier",
    "ttg.warp_",
)
TERMINATORS = ("scf.yield", "scf.condition", "tt.return", "cf.br", "cf.cond_br")
# Where nothing may be moved past: control flow and the end of a block.
STOPS = ("scf.", "cf.", "tt.return")

# The elements that are staged: the builder's name for the type, and its size in bytes.
ELEMENT_TYPES = {
    "f8E4M3FN": ("get_fp8e4nv_ty", 1),
    "f8E5M2": ("get_fp8e5_ty", 1),
    "i8": ("get_int8_ty", 1),
    "i16": ("get_int16_ty", 2),
    "f16": ("get_half_ty", 2),
    "bf16": ("get_bf16_ty", 2),
    "i32": ("get_int32_ty", 4),
    "f32": ("get_float_ty", 4),
    "i64": ("get_int64_ty", 8),
    "f64": ("get_double_ty", 8),
}


NOT_PIPELINED = (
    "no asynchronous copy can be made of this load, because the compiler cannot prove that each "
    "thread's elements make up at least 4 consecutive, aligned bytes"
)


@dataclasses.dataclass(frozen=True)
class Note:
    """What the attribute says: `depth` buffers and the loop's own ``num_stages``, each 0 where it
    is not given, whether the pipeliner was asked (1) or not (0), and where the hint stands."""

    depth: int
    loop_stages: int
    pipelined: int
    line: int
    column: int
    length: int
    file: str

    def encode(self) -> str:
        """The attribute's text; the file comes last because its name may hold anything."""
        return (
            f"{self.depth} {self.loop_stages} {self.pipelined} {self.line} "
            f"{self.column} {self.length} {self.file}"
        )

    @classmethod
    def decode(cls, text: str) -> Note:
        """Reads what `encode` wrote."""
        depth, stages, pipelined, line, column, length, file = text.split(" ", 6)
        place = (int(line), int(column), int(length), file)
        return cls(int(depth), int(stages), int(pipelined), *place)

    def place(self) -> HintPlace:
        """The hint's place, with the text of its line where the file can be read."""
        text = linecache.getline(self.file, self.line).rstrip("\r\n")
        return HintPlace(self.file, self.line, self.column, self.length, text)


def mark_load(generator: Any, result: Any, *, depth: int | None, place: HintPlace) -> None:
    """Leaves a note on the load that made `result`, a tensor, and on the module."""
    stages = generator.loop_stages[-1] if generator.loop_stages else None
    note = Note(depth or 0, stages or 0, 0, place.line, place.column, place.length, place.file)
    builder = generator.builder
    result.handle.set_attr(NOTE, builder.get_string_attr(note.encode()))
    generator.module.set_attr(MODULE_NOTE, builder.get_int32_attr(1))


def mark_advised_load(generator: Any, result: Any, name: str, place: HintPlace) -> None:
    """Leaves a note on the load that made `result` and that the hint `name` gave advice to."""
    note = f"{name} {Note(0, 0, 0, place.line, place.column, place.length, place.file).encode()}"
    builder = generator.builder
    result.handle.set_attr(ADVICE_NOTE, builder.get_string_attr(note))
    generator.module.set_attr(MODULE_NOTE, builder.get_int32_attr(1))


class Operations:
    """A module's operations in order, with the relations that the bindings do not give."""

    def __init__(self, module: Any) -> None:
        self.all: list[Any] = []
        module.walk(self.all.append)
        self.producer: dict[int, int] = {}
        self.users: dict[int, list[int]] = {}
        self.region_owner: dict[int, int] = {}
        self.blocks: dict[int, list[int]] = {}
        # The walk visits what is inside an operation before the operation itself; within one
        # block it goes in order.
        for index, operation in enumerate(self.all):
            for number in range(operation.get_num_results()):
                self.producer[operation.get_result(number).id()] = index
            for number in range(operation.get_num_operands()):
                self.users.setdefault(operation.get_operand(number).id(), []).append(index)
            for number in range(operation.get_num_regions()):
                self.region_owner[operation.get_region(number).id()] = index
            block = operation.get_block()
            if block is not None:
                self.blocks.setdefault(block.id(), []).append(index)

    def advised(self) -> list[str]:
        """The notes of loads with advice, each once."""
        loads = (operation for operation in self.all if operation.get_name() == "tt.load")
        notes = (load.get_str_attr(ADVICE_NOTE) for load in loads)
        return list(dict.fromkeys(note for note in notes if note is not None))

    def marked(self) -> Iterator[tuple[int, Note]]:
        """The loads with a note."""
        for index, operation in enumerate(self.all):
            if operation.get_name() == "tt.load":
                text = operation.get_str_attr(NOTE)
                if text is not None:
                    yield index, Note.decode(text)

    def parent(self, index: int) -> int | None:
        """The operation whose region holds this one."""
        block = self.all[index].get_block()
        region = block.get_parent() if block is not None else None
        return None if region is None else self.region_owner.get(region.id())

    def same_block(self, index: int) -> list[int]:
        """The operations of this one's block, in order."""
        return self.blocks[self.all[index].get_block().id()]


def pipeline_marked_loads(module: Any, options: Any) -> Any:
    """Turns the notes of loads directly in ``for`` loops into the base's ``tt.latency``.

    A latency of n makes the pipeliner keep n copies in flight, in n buffers.  Without a depth it
    is what the base takes for a load that feeds tl.dot: ``num_stages - 1``, at least 1.
    """
    if module.get_int_attr(MODULE_NOTE) is None:
        return module
    operations = Operations(module)
    builder = ir.builder(module.context)
    loops: dict[int, list[tuple[int, Note]]] = {}
    for index, note in operations.marked():
        parent = operations.parent(index)
        if parent is not None and operations.all[parent].get_name() == "scf.for":
            loops.setdefault(parent, []).append((index, note))
    for marked in loops.values():
        stages = next((note.loop_stages for _, note in marked if note.loop_stages), 0)
        latencies = _own_latencies(
            operations, operations.same_block(marked[0][0]), stages, options.num_stages
        )
        for index, note in marked:
            latencies[index] = note.depth or max(1, (stages or options.num_stages) - 1)
            asked = dataclasses.replace(note, pipelined=1)
            load = operations.all[index].get_result(0)
            load.set_attr(NOTE, builder.get_string_attr(asked.encode()))
        for index, latency in latencies.items():
            load = operations.all[index].get_result(0)
            load.set_attr("tt.latency", builder.get_int32_attr(latency))
    advised = operations.advised()
    if advised:
        module.set_attr(ADVICE_NOTE, builder.get_string_attr("\n".join(advised)))
    return module


def _own_latencies(
    operations: Operations, block: list[int], loop_stages: int, num_stages: int
) -> dict[int, int]:
    """The latencies that the base would give the loads of a loop without hints.

    It pipelines the loads that feed a dot, also indirectly, and shares the stages among the
    levels of indirection; in a loop with an own ``num_stages`` and no dot, every load.
    """
    stages = loop_stages or num_stages
    if stages < 2:
        return {}
    inside = set(block)
    names = {index: operations.all[index].get_name() for index in block}
    sinks = [index for index in block if names[index] in ("tt.dot", "tt.dot_scaled")]
    if not sinks and loop_stages:
        sinks = [index for index in block if names[index] not in ("tt.load", *TERMINATORS)]
    levels: dict[int, int] = {}
    pending = [(sink, 0) for sink in sinks]
    seen: set[tuple[int, int]] = set()
    while pending:
        index, level = pending.pop()
        operation = operations.all[index]
        for number in range(operation.get_num_operands()):
            source = operations.producer.get(operation.get_operand(number).id())
            if source is None or source not in inside:
                continue
            next_level = level
            if names[source] == "tt.load":
                levels[source] = max(levels.get(source, 0), level)
                next_level = level + 1
            if (source, next_level) not in seen:
                seen.add((source, next_level))
                pending.append((source, next_level))
    if not levels:
        return {}
    latency = (stages - 1) // (max(levels.values()) + 1)
    return dict.fromkeys(levels, latency) if latency > 0 else {}


def stage_marked_loads(module: Any, *, asynchronous: bool, as_error: bool) -> Any:
    """Copies to shared memory the loads with a note that are not in a pipelined loop.

    Where the tool chain can (`asynchronous`) and every element has at least 4 bytes, the copy is
    asynchronous and is waited for where the value is first used, or before anything that could
    write memory.  Smaller elements are loaded and stored, since only the base's analysis knows
    whether they may be copied in larger pieces.  Reports the loads that cannot be staged, as an
    error if `as_error`.
    """
    if module.get_int_attr(MODULE_NOTE) is None:
        return module
    diagnostics = _lost_advice(module)
    changed = False
    # Each rewriting invalidates the relations, so they are found anew for the next load.
    done: set[int] = set()
    while True:
        operations = Operations(module)
        pending = [
            (index, note)
            for index, note in operations.marked()
            if operations.all[index].get_result(0).id() not in done
        ]
        if not pending:
            break
        index, note = pending[0]
        done.add(operations.all[index].get_result(0).id())
        refusal: str | None = NOT_PIPELINED
        if not note.pipelined:
            refusal = Staging(module, operations, index, asynchronous).run()
        changed |= refusal is None
        if refusal is not None:
            message = f"hint 'shared_memory' does not apply here: {refusal}"
            diagnostics.append(HintDiagnostic(note.place(), message))
    if changed:
        # The loads that were replaced have no uses left; this removes them.
        manager = ir.pass_manager(module.context)
        passes.common.add_canonicalizer(manager)
        manager.run(module, "hint_shared_memory")
    report(diagnostics, as_error=as_error)
    return module


def _lost_advice(module: Any) -> list[HintDiagnostic]:
    """What there is to say of loads that had advice and are loads no longer."""
    before = module.get_operation().get_str_attr(ADVICE_NOTE)
    if not before:
        return []
    left = Operations(module).advised()
    return [
        HintDiagnostic(
            Note.decode(note).place(),
            f"hint '{name}' does not apply here: the compiler makes an asynchronous copy of this "
            "load, which takes no such advice",
        )
        for name, _, note in (text.partition(" ") for text in before.split("\n"))
        if f"{name} {note}" not in left
    ]


class Staging:
    """The rewriting of one load."""

    def __init__(self, module: Any, operations: Operations, index: int, asynchronous: bool) -> None:
        self.asynchronous = asynchronous
        self.module = module
        self.operations = operations
        self.index = index
        self.load = operations.all[index]
        self.result = self.load.get_result(0)
        self.users = operations.users.get(self.result.id(), [])
        self.builder = gluon_ir.GluonOpBuilder(module.context)

    def run(self) -> str | None:
        """Rewrites the load; returns why not where it cannot be."""
        if not self.users:
            return None
        if (self.module.get_int_attr("ttg.num-ctas") or 1) > 1:
            return "the kernel runs in clusters (num_ctas > 1), which share no such memory"
        if any(self._name(user) == "ttg.local_alloc" for user in self.users):
            return "the compiler already stages this load through shared memory, for tl.dot"
        match = re.match(r"tensor<((?:\d+x)+)([^,>]+)", str(self.result.get_type()))
        if match is None or match[2] not in ELEMENT_TYPES:
            return f"a {self.result.get_type()} cannot be copied"
        shape = [int(size) for size in match[1].split("x")[:-1]]
        getter, element_bytes = ELEMENT_TYPES[match[2]]
        memory = self.builder.get_shared_mem_desc_ty(
            getattr(self.builder, getter)(), shape, self._layout(shape, element_bytes), shape
        )
        if self.asynchronous and element_bytes >= ASYNC_BYTES:
            self._copy_asynchronously(memory)
        else:
            self._copy_through_registers(memory)
        return None

    def _name(self, index: int) -> str:
        return str(self.operations.all[index].get_name())

    def _region_of(self, index: int) -> int:
        return int(self.operations.all[index].get_block().get_parent().id())

    def _insert_after(self, operation: Any) -> None:
        self.builder.set_insertion_point_after(operation)
        self.builder.set_loc(self.result.get_loc())

    def _copy_asynchronously(self, memory: Any) -> None:
        operands = [self.load.get_operand(n) for n in range(self.load.get_num_operands())]
        pointer, mask, other = (*operands, ir.value(), ir.value())[:3]
        last = self._last_before_use(stop_at_writes=True)
        self._insert_after(self.load)
        buffer = self.builder.create_local_alloc(memory)
        # Without `other`: what the mask leaves out becomes 0 in shared memory, and the value of
        # `other`, where there is one, is selected after reading.
        self.builder.create_async_copy_global_to_local(
            buffer,
            pointer,
            mask,
            ir.value(),
            ir.CACHE_MODIFIER.NONE,
            ir.EVICTION_POLICY.NORMAL,
            False,
        )
        self.builder.create_async_commit_group()
        if last is not self.load:
            self._insert_after(last)
        self.builder.create_async_wait_group(0)
        if len(operands) == 3:
            value = self.builder.create_local_load(self.result.get_type(), buffer)
            self.result.replace_all_uses_with(self.builder.create_select(mask, value, other))
        else:
            self._read_back(buffer)

    def _copy_through_registers(self, memory: Any) -> None:
        last = self._last_before_use(stop_at_writes=False)
        self._insert_after(self.load)
        # A stand-in for the loaded value, so that replacing its uses spares this one.
        stand_in = self.builder.create_poison(self.result.get_type())
        buffer = self.builder.create_local_alloc(memory, stand_in)
        if last is not self.load:
            self._insert_after(last)
        self._read_back(buffer)
        stand_in.replace_all_uses_with(self.result)

    def _read_back(self, buffer: Any) -> None:
        """Makes every use read `buffer`, and a change of layout read it in the new one."""
        plain = False
        for user in self.users:
            if self._name(user) == "ttg.convert_layout":
                converted = self.operations.all[user].get_result(0)
                value = self.builder.create_local_load(converted.get_type(), buffer)
                converted.replace_all_uses_with(value)
            else:
                plain = True
        if plain:
            value = self.builder.create_local_load(self.result.get_type(), buffer)
            self.result.replace_all_uses_with(value)

    def _last_before_use(self, *, stop_at_writes: bool) -> Any:
        """The last operation of the load's block before the value is needed."""
        region = self._region_of(self.index)
        needed = set()
        for user in self.users:
            # The operation of the load's own region that holds the user.
            holder: int | None = user
            while holder is not None and self._region_of(holder) != region:
                holder = self.operations.parent(holder)
            needed.add(holder)
        block = self.operations.same_block(self.index)
        last = self.index
        for index in block[block.index(self.index) + 1 :]:
            name = self._name(index)
            if index in needed or name.startswith(STOPS):
                break
            if stop_at_writes and name.startswith(BARRIERS):
                break
            last = index
        return self.operations.all[last]

    def _layout(self, shape: list[int], element_bytes: int) -> Any:
        """How the tensor lies in shared memory: in the order in which it is loaded.

        Where it is read back in another layout its rows are swizzled, so that the threads of a
        warp find their pieces in different banks.
        """
        order = self._order(len(shape))
        vector, per_phase, phases = 1, 1, 1
        converted = any(self._name(user) == "ttg.convert_layout" for user in self.users)
        if len(shape) == 2 and converted:
            vector = max(1, VECTOR_BYTES // element_bytes)
            row_bytes = shape[order[0]] * element_bytes
            per_phase = max(1, BANK_ROW_BYTES // row_bytes)
            phases = max(1, min(8 // per_phase, shape[order[0]] // vector))
        return self.builder.get_swizzled_shared_layout(vector, per_phase, phases, order, [])

    def _order(self, rank: int) -> list[int]:
        """The tensor's dimensions from the fastest varying on."""
        layout = self.builder.get_gluon_layout_from_tensor(self.result)
        order = getattr(layout, "order", None)
        if order is None or sorted(order) != list(range(rank)):
            return list(range(rank))[::-1]
        return list(order)
