"""Facts of work that a step does in vain."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.script.diagonal_matrices import DiagonalMatrixFacts, DiagonalMatrixLine
from perfdoctor.facts.script.embedding_tables import EmbeddingTable, EmbeddingTableFacts
from perfdoctor.facts.script.fourier_products import FourierProductFacts, FourierProductLine
from perfdoctor.facts.script.recomputation import RecomputationFacts
from perfdoctor.facts.script.recomputed_constants import ConstantLine, RecomputedConstantFacts
from perfdoctor.facts.script.renormalised_embeddings import RenormalisedEmbeddingFacts, RenormalisedTable
from perfdoctor.facts.script.repeated_copies import CopyingLine, RepeatedCopyFacts
from perfdoctor.facts.script.repeated_factorizations import FactorizationLine, RepeatedFactorizationFacts
from perfdoctor.facts.script.repeated_prefixes import RepeatedPrefixesFacts
from perfdoctor.facts.script.zero_products import ZeroProductFacts, ZeroProductLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import LineCost, Location, Phase

AT = Location("train.py", 9, "main", "mask = causal(len(x))")
GB = 10**9
SHARE = st.floats(0, 1)
BYTES = st.integers(0, 10**12)
HEALTHY = {
    RecomputedConstantFacts: RecomputedConstantFacts(
        Estimate(0.0, 0.01, 0.03), (ConstantLine(AT, 0.01, ("ones", "triu")),), 5
    ),
    RepeatedCopyFacts: RepeatedCopyFacts(
        Estimate(0.0, 0.01, 0.02), 40e6, (CopyingLine(AT, 0.01, 40e6, 12.0, ("clone",)),), 5
    ),
    ZeroProductFacts: ZeroProductFacts(
        Estimate(0.0, 0.01, 0.03), (ZeroProductLine(AT, 0.01, 256, 64, 1 / 64, True),), 5
    ),
    DiagonalMatrixFacts: DiagonalMatrixFacts(
        Estimate(0.0, 0.01, 0.03), (DiagonalMatrixLine(AT, 0.01, ("linalg_cholesky",), 64, 6, True),), 5
    ),
    RepeatedFactorizationFacts: RepeatedFactorizationFacts(
        Estimate(0.0, 0.01, 0.03), 0.9, (FactorizationLine(AT, 0.01, "linalg_solve", 5, 512, 11),), 5
    ),
    FourierProductFacts: FourierProductFacts(
        Estimate(0.0, 0.01, 0.03), 0.025, (FourierProductLine(AT, 0.01, "conv1d", 1_024, 1_026, 256),), 5
    ),
    EmbeddingTableFacts: EmbeddingTableFacts(
        (EmbeddingTable("words", 30_000, 30_000 * 512 * 4, 8_192.0, "AdamW", 0.3, 0.3, AT),)
    ),
    RenormalisedEmbeddingFacts: RenormalisedEmbeddingFacts(
        Estimate(0.0, 0.01, 0.03), (RenormalisedTable(AT, None, 0.01, 1.0, 64.0, 32),), 5
    ),
    RecomputationFacts: RecomputationFacts(2.0, Estimate(0.03, 0.03, 0.03), AT, 2 * GB, 12 * GB, False),
    RepeatedPrefixesFacts: RepeatedPrefixesFacts(20.0, 32, 0.04, 0.5, True, False, (AT,)),
}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    low, likely, high = sorted(draw(st.tuples(SHARE, SHARE, SHARE)))
    lines = [
        ConstantLine(AT, draw(SHARE), ("sum",) * draw(st.integers(0, 2)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    copying = [
        CopyingLine(
            AT,
            draw(SHARE),
            draw(st.floats(0, 1e12)),
            draw(st.floats(0, 1e6)),
            ("cat",) * draw(st.integers(0, 2)),
            *draw(
                st.just(())
                | st.tuples(st.sampled_from(Phase), SHARE.map(lambda share: LineCost(AT, share, 9)))
            ),
            weights=draw(st.booleans()),
            gradients=draw(st.booleans()),
            reported=draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    multiplying = [
        ZeroProductLine(AT, draw(SHARE), 256, 64, draw(st.floats(1e-9, 1)), draw(st.booleans()))
        for _ in range(draw(st.integers(0, 2)))
    ]
    diagonal = [
        DiagonalMatrixLine(
            AT,
            draw(SHARE),
            ("matmul",) * draw(st.integers(0, 2)),
            draw(st.integers(0, 10**9)),
            draw(st.integers(1, 10**6)),
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    factorised = [
        FactorizationLine(
            AT,
            draw(SHARE),
            draw(st.sampled_from(["", "linalg_solve", "linalg_inv"])),
            draw(st.integers(0, 10**9)),
            draw(st.integers(1, 10**6)),
            draw(st.integers(2, 10**6)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    fourier = [
        FourierProductLine(
            AT,
            draw(SHARE),
            draw(st.sampled_from(["", "conv1d"])),
            draw(st.integers(1, 10**6)),
            draw(st.integers(1, 10**6)),
            draw(st.integers(0, 10**6)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    tables = [
        EmbeddingTable(
            draw(st.sampled_from(["", "users"])),
            draw(st.integers(0, 10**9)),
            draw(st.integers(0, 10**12)),
            draw(st.floats(0, 1e9)),
            "Adam",
            draw(SHARE),
            draw(SHARE),
            draw(st.none() | st.just(AT)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    short = [
        RenormalisedTable(
            AT,
            draw(st.none() | st.just(AT)),
            draw(SHARE),
            draw(st.floats(0, 1e6)),
            draw(st.floats(0, 1e9)),
            draw(st.integers(0, 10**6)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    again = RecomputationFacts(
        draw(st.floats(0, 1e6)),
        Estimate(low, likely, high),
        draw(st.none() | st.just(AT)),
        draw(BYTES),
        draw(BYTES),
        draw(st.booleans()),
    )
    return {
        RecomputationFacts: again,
        RecomputedConstantFacts: RecomputedConstantFacts(Estimate(low, likely, high), tuple(lines), 3),
        RepeatedCopyFacts: RepeatedCopyFacts(
            Estimate(low, likely, high), draw(st.floats(0, 1e12)), tuple(copying), 3
        ),
        ZeroProductFacts: ZeroProductFacts(Estimate(low, likely, high), tuple(multiplying), 3),
        DiagonalMatrixFacts: DiagonalMatrixFacts(Estimate(low, likely, high), tuple(diagonal), 3),
        RepeatedFactorizationFacts: RepeatedFactorizationFacts(
            Estimate(low, likely, high), draw(SHARE), tuple(factorised), 3
        ),
        FourierProductFacts: FourierProductFacts(Estimate(low, likely, high), draw(SHARE), tuple(fourier), 3),
        EmbeddingTableFacts: EmbeddingTableFacts(tuple(tables)),
        RenormalisedEmbeddingFacts: RenormalisedEmbeddingFacts(Estimate(low, likely, high), tuple(short), 3),
        RepeatedPrefixesFacts: RepeatedPrefixesFacts(
            draw(st.floats(8, 1e6)),
            draw(st.integers(9, 10**6)),
            draw(SHARE),
            draw(SHARE),
            draw(st.booleans()),
            draw(st.booleans()),
            (AT,) * draw(st.integers(0, 1)),
            (AT,) * draw(st.integers(0, 2)),
            draw(st.booleans()),
        ),
    }
