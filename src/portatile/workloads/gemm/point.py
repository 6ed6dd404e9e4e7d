"""A configuration as a typed record: the parameters of Du et al.'s generator (table 4), and those that later devices ask for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from portatile.errors import ArgumentError, UnknownNameError
from portatile.records import Config, Value

_Rules = list[tuple[str, bool]]
"""What must hold, in words, and whether it does."""

FORMS = ("generic", "cpu", "gpu", "thin")
OPERANDS = ("AB", "A", "B")
MMA_SHAPES = ("8x8x4", "16x8x4", "16x8x8", "16x8x16")
_WHOLE = 16  # steps of k: vectors stay aligned where groups share k
_SUMS = 16384  # bytes of local memory that the sums of a thin form's work-items take at a time


@dataclass(frozen=True)
class Point:
    """One configuration; ``parameters.MEANINGS`` says what each parameter does. Defaults leave a parameter without effect."""

    FORM: str
    VL: int = 1
    TC: int = 1
    TR: int = 1
    TBC: int = 1
    TBR: int = 1
    TCR: int = 1
    TRR: int = 1
    KB: int = 1
    TXC: bool = False
    SM: bool = False
    UNROLL: int = 1
    MAD: str = "fma"
    SCALARS: bool = True
    PAD: int = 0
    STAGES: int = 1
    LANES: int = 0
    DOUBLE: int = 0
    KG: int = 1
    TAIL: int = 0
    PACK_A: bool = False
    PACK_B: bool = False
    TURN: bool = False
    KEEP: bool = False
    SPLIT_K: int = 1
    RASTER: int = 1
    MMA: bool = False
    MMA_SHAPE: str = "16x8x8"
    LDG: bool = False
    SHUFFLE: bool = False
    JOIN: bool = False
    SM_OF: str = "AB"
    TXC_OF: str = "AB"
    VIEW_A: bool = False
    VIEW_B: bool = False

    @classmethod
    def of(cls, config: Config) -> Point:
        """From a configuration; raises UsageError for a name or a type that does not belong."""
        known = {field.name: field for field in fields(cls)}
        for name, value in config.items():
            if name not in known:
                raise UnknownNameError("gemm parameter", name, known)
            expected = {"str": str, "int": int, "bool": bool}[str(known[name].type)]
            if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
                raise ArgumentError(f"gemm: {name}={value!r} must be of type {expected.__name__}")
        if config.get("FORM") not in FORMS:
            raise ArgumentError(f"gemm: FORM={config.get('FORM')!r} is not one of {', '.join(FORMS)}")
        point = cls(**config)  # type: ignore[arg-type]
        point.check()
        return point

    def check(self) -> None:
        """Raise ArgumentError where parameters contradict each other, so that the kernel text would not index its tile rightly."""
        form = {"generic": self._generic_rules, "cpu": self._cpu_rules, "gpu": self._gpu_rules, "thin": self._thin_rules}[self.FORM]
        for rule, holds in (*form(), *self._staging_rules()):
            if not holds:
                raise ArgumentError(f"gemm: {rule}; the configuration is {self.config()}")

    def _common_rules(self) -> _Rules:
        return [
            ("VL must divide TC", self.TC % self.VL == 0 or (self.FORM == "cpu" and self.KEEP)),
            ("only the generic form reads images", not self.TXC or self.FORM == "generic"),
            ("only the gpu form has a TAIL", self.TAIL == 0 or self.FORM == "gpu"),
            self._join_rule(),
            ("only the generic form has LDG and SHUFFLE", self.FORM == "generic" or not (self.LDG or self.SHUFFLE)),
        ]

    def _join_rule(self) -> tuple[str, bool]:
        shared = self.FORM in ("gpu", "thin") and (self.SPLIT_K > 1 or self.TAIL > 0)
        return "JOIN adds what groups share, in the forms gpu and thin: with SPLIT_K or a TAIL", shared or not self.JOIN

    def _staging_rules(self) -> _Rules:
        generic = self.FORM == "generic"
        return [
            (f"SM_OF and TXC_OF are one of {', '.join(OPERANDS)}", self.SM_OF in OPERANDS and self.TXC_OF in OPERANDS),
            ("SM_OF needs SM in the generic form", self.SM_OF == "AB" or (generic and self.SM)),
            ("TXC_OF needs TXC", self.TXC_OF == "AB" or (generic and self.TXC)),
            *(
                (f"VIEW_{name} needs an image of {name}: TXC", not view or (self.TXC and name in self.TXC_OF))
                for name, view in (("A", self.VIEW_A), ("B", self.VIEW_B))
            ),
        ]

    def _generic_rules(self) -> _Rules:
        return [
            *self._common_rules(),
            ("KB must be 1 or more in the generic form", self.KB > 0),
            ("PAD must be a multiple of VL", self.PAD % self.VL == 0),
            *(
                (f"{name} is packed or read through an image: PACK_{name} or TXC", not (packed and self.TXC and name in self.TXC_OF))
                for name, packed in (("A", self.PACK_A), ("B", self.PACK_B))
            ),
            ("SHUFFLE takes the place of reads of local memory: SM must hold for A", self.through_local("a") or not self.SHUFFLE),
            (
                "SHUFFLE needs whole warps, of which TBC divides one and is no less than TR TRR",
                not self.SHUFFLE or (32 % self.TBC == self.items % 32 == 0 and self.TR * self.TRR <= self.TBC),
            ),
        ]

    def _cpu_rules(self) -> _Rules:
        return [
            *self._common_rules(),
            ("the cpu form has one work-item to a group", self.items == self.TRR == self.TCR == 1),
            ("KEEP in the cpu form packs single columns of B", not (self.KEEP and self.PACK_B) or self.TC == 1),
            ("KEEP in the cpu form reads A in place, all of k at once", not self.KEEP or (not self.PACK_A and self.KB == 0)),
            ("KEEP in the cpu form excludes SM and TURN", not (self.KEEP and (self.SM or self.TURN))),
            ("SM in the cpu form brings B there itself, KB steps at a time", not self.SM or (self.KB > 0 and not self.PACK_B)),
            ("SM in the cpu form has all of k to a group", not self.SM or self.SPLIT_K == 1),
        ]

    def _gpu_rules(self) -> _Rules:
        steps = self.KB / self.KG / self.unit
        turns = steps if self.UNROLL * self.KG >= self.KB else self.UNROLL / self.unit
        return [
            *self._common_rules(),
            ("the gpu form stages operands: SM must be True", self.SM),
            ("VL must divide TR and be 2 or more", self.TR % self.VL == 0 and self.VL >= 2),
            ("PAD must be a multiple of VL", self.PAD % self.VL == 0),
            (
                "LANES must divide TBC, and 32 / LANES TBR",
                self.LANES > 0 and self.TBC % self.LANES == self.TBR % (32 // self.LANES) == 0,
            ),
            ("KG must divide KB, for MMA into multiples of 8 (MMA_SHAPE 16x8x16: of 16), for KEEP of VL", steps == int(steps)),
            (f"MMA_SHAPE must be one of {', '.join(MMA_SHAPES)}", self.MMA_SHAPE in MMA_SHAPES),
            ("DOUBLE needs two stages and an even number of steps", self.DOUBLE == 0 or (self.STAGES > 1 and steps % 2 == 0)),
            ("UNROLL must divide KB / KG, or be more, and be such a multiple too", turns >= 1 and steps % turns == 0),
            ("UNROLL must be two of them or more for DOUBLE", self.DOUBLE == 0 or turns % 2 == 0),
            ("TAIL splits k by itself and would pack B twice", self.TAIL == 0 or (self.SPLIT_K == 1 and not self.PACK_B)),
            ("TURN and KEEP exclude each other", not (self.TURN and self.KEEP)),
            ("TURN and KEEP need TR = TC = VL", self.MMA or not (self.TURN or self.KEEP) or self.TR == self.TC == self.VL),
            (
                "TURN and KEEP need powers of two for TBR, TBC and KB",
                not (self.TURN or self.KEEP) or all(n & (n - 1) == 0 for n in (self.TBR, self.TBC, self.KB)),
            ),
            (
                "MMA needs VL = 2 and TR = 2, TC = LANES = 4 or TR = 4, TC = 2, LANES = 8",
                not self.MMA or (self.VL, self.TR, self.TC, self.LANES) in ((2, 2, 4, 4), (2, 4, 2, 8)),
            ),
            ("MMA needs KB in whole sixteens", not self.MMA or self.KB % 16 == 0),
        ]

    def _thin_rules(self) -> _Rules:
        powers = (self.VL, self.TR, self.TC, self.TBR, self.KG, self.UNROLL)
        return [
            ("the thin form has no TAIL", self.TAIL == 0),
            self._join_rule(),
            ("the thin form takes powers of two for VL, TR, TC, TBR, KG and UNROLL", all(n > 0 and n & (n - 1) == 0 for n in powers)),
            ("the thin form has one block to a work-item, in one row of work-items", self.TBC == self.TRR == self.TCR == 1),
            ("the thin form packs nothing and reads no images", not (self.PACK_A or self.PACK_B or self.TXC)),
            (
                "KG UNROLL VL must divide KB where the thin form keeps B in local memory",
                not self.SM or (self.KB > 0 and self.KB % (self.KG * self.UNROLL * self.VL) == 0),
            ),
        ]

    def config(self) -> dict[str, Value]:
        """The configuration, every parameter named."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def unit(self) -> int:
        """Steps of k that the gpu form takes at a time from local memory to registers."""
        if self.MMA:
            return 16 if self.MMA_SHAPE == "16x8x16" else 8
        return self.VL if self.KEEP else 1

    def through_local(self, name: str) -> bool:
        """Whether the generic form brings operand ``name`` (a or b) to local memory."""
        return self.SM and name.upper() in self.SM_OF

    def source(self, name: str) -> str:
        """Where the generic form takes operand ``name`` from: memory, panel, image (a copy) or view (an image that shows the memory)."""
        upper = name.upper()
        if self.TXC and upper in self.TXC_OF:
            return "view" if (self.VIEW_A if upper == "A" else self.VIEW_B) else "image"
        return "panel" if (self.PACK_A if upper == "A" else self.PACK_B) else "memory"

    @property
    def turns(self) -> bool:
        """Whether C^T = op(B)^T op(A)^T is computed."""
        return self.TURN and self.FORM in ("cpu", "thin")

    @property
    def block(self) -> int:
        """Steps of k that are never divided between groups, nor done in part."""
        return {"cpu": 1, "thin": _WHOLE}.get(self.FORM, self.KB)

    @property
    def rows(self) -> int:
        """Rows of the tile of C that a work-group computes."""
        return self.TBR * self.TR * self.TRR

    @property
    def columns(self) -> int:
        """Columns of the tile of C that a work-group computes."""
        return self.TBC * self.TC * self.TCR

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.TBR * self.TBC * self.KG

    def group(self, along: bool) -> tuple[int, int, int]:
        """The shape of a work-group: neighbours read what is contiguous, in the thin form along k or across it."""
        if self.FORM == "gpu":
            return (self.items, 1, 1)
        if self.FORM == "thin":
            return (self.KG, self.TBR, 1) if along else (self.TBR, self.KG, 1)
        return (self.TBC, self.TBR, 1)

    @property
    def adders(self) -> int:
        """Work-items of the thin form that share a sum over its KG parts: about as many as each of them adds."""
        return 1 << (self.KG.bit_length() - 1) // 2

    def together(self, itemsize: int) -> int:
        """Values of every work-item of the thin form that its group adds up at a time."""
        each = self.TBR * (self.KG + 2 * self.adders) * itemsize
        fitting = [count for count in (64, 32, 16, 8, 4, 2, 1) if count <= self.TR * self.TC and count * each <= _SUMS]
        return next(iter(fitting), 1)

    def local_bytes(self, itemsize: int, along: bool = True) -> int:
        """Local memory of a work-group; ``along``: the thin form's large operand has k fast, which may take more."""
        if self.FORM == "thin":
            small = self.TC * (self.KB * itemsize + 16) if self.SM else 0
            if self.STAGES > 1:
                small += self.STAGES * self.items * self.TR * self.UNROLL * (self.VL if along else 1) * itemsize
            sums = self.together(itemsize) * self.TBR * (self.KG + 2 * self.adders) * itemsize if self.KG > 1 else 0
            return max(small, sums)
        if not self.SM:
            return 0
        sides = (self.rows if "A" in self.SM_OF else 0) + (self.columns if "B" in self.SM_OF else 0)
        stages = self.STAGES * self.KB * (sides + len(self.SM_OF) * self.PAD)
        exchange = self.rows * self.columns if self.KG > 1 else 0
        return max(stages, exchange) * itemsize
