"""No claim is a check that cannot fail: for each one a planted fault turns its verdict, by measurement.

A claim that is expected to hold is refuted by a broken cell; a statement that is expected to be refuted comes true for
one. An error, a crash or a skipped check does not count.
"""

from __future__ import annotations

import pytest
from planted import PATCHES, PLANTED, verdicts
from planted.run import the_catalogue

from fixtures.subjects import BUILT_IN

TURNED_BY = {
    # The cells
    "cells.step-parity": """
        ExchangedGates CandidateForOutput TransposedKernel RecurrentBiasLeftOut InputBiasTwice OneBiasForAllGates
        OneRecurrentKernelForAllGates NoOutputTanh HardSigmoid OvershootingSigmoid CoupledInputGate StaleCellShown
        ForgetBiasTwice UnitsBeyond128Lost TenBitMantissa CellInHalf InitialCellIgnored ResetBeforeProduct
        ResetAfterProduct ResetIgnored InnerBiasLeftOut PeepholesExchanged PeepholeAfterTheSigmoid
        OutputPeepsAtTheOldCell
        """,
    "cells.sequence-parity": """
        StateNotCarried InitialStateIgnored BatchAndTimeExchanged Beyond65536Lost TrainingDiffers
        """,
    "cells.gradient-parity": """
        HiddenStateDetached CellDetached TruncatedBackward CellGradientTwice TanhTwiceInTheDerivative
        BiasGradientDropped BiasGradientDoubled KernelGradientOneStepLate DetachedState GradientBeyond65536Lost
        """,
    "cells.every-size": "RowsBeyond64Lost TruncatedAfterHundred",
    "cells.every-number": "StateClippedAtOne SmallInputsLost",
    "cells.gradient-is-linear": "GradientsClippedAtTen SmallGradientsFlushed",
    "cells.parameters-alone": "NoParameterGradientWithoutInputs",
    "cells.strides": "StridesIgnored GradientStridesIgnored",
    "cells.backward-twice": "SavedStateOverwritten UpstreamOverwritten NoisyStateGradient",
    "cells.backward-later": "WorkspaceOfTheLastCall",
    "cells.new-weights": "KernelTransposedOnce",
    "cells.modes": "EvaluationWithAGraph OtherPathWhereXAsks",
    "cells.repeatable": "StateLeaks InstancesShareOneCell GradientsPileUp NoisyInputGradient",
    "cells.arguments-untouched": "StateChangedInPlace ParametersChangedInPlace",
    "cells.omitted-state": "RecurrentBiasSkippedAtFirst OmittedStateIsTheLastOne NoisyCell",
    "cells.steps-are-the-sequence": "OneStepCallsDiffer StateNotCarried OutputBufferReused",
    "cells.rows-alone": "RowsMixed",
    "cells.number-format": "WideNumbers",
    "cells.saturation": "NaiveExponentials NotANumberFarOut",
    "cells.empty-sequence": "EmptySequenceResets",
    # Layouts
    "layouts.round-trip": "sign_forgotten_in_reading",
    "layouts.notebook-round-trip": "TorchBlocksInAnotherOrder",
    "layouts.column-form": "TransposedKernel",
    "layouts.row-form": "TransposedKernel",
    "layouts.lstm-blocks": "CandidateForOutput TorchBlocksInAnotherOrder",
    "layouts.gru-blocks": "ExchangedResetAndUpdate UpdateWrites",
    "layouts.kernel-rows": "TransposedKernel",
    "layouts.two-biases": "RecurrentBiasLeftOut InputBiasTwice",
    "layouts.inner-bias": "InnerBiasOutside InnerBiasLeftOut",
    "layouts.agreement-is-exact": "RoundedOnce",
    "layouts.notebook-lstm-parity": "TenBitMantissa",
    "layouts.notebook-ranges": "HardSigmoid",
    "layouts.gates-in-closed-interval": "OvershootingSigmoid",
    "layouts.gates-in-open-interval": "ClippedGates",
    "layouts.gates-follow-the-context": "GatesBlindToState",
    # The GRU's conventions
    "conventions.deck-equations": "DecksUpdateKeeps ResetAfterProduct",
    "conventions.lesson-equations": "DecksUpdateKeeps ResetAfterProduct",
    "conventions.pytorch-equations": "UpdateWrites ResetBeforeProduct",
    "conventions.update-gate-is-a-relabelling": "UpdateBiasOne",
    "conventions.reset-placement-is-another-function": "ResetBeforeProduct ResetAfterProduct",
    "conventions.reset-placements-coincide": "ResetIgnored",
    "conventions.printed-disagreement": "ResetBeforeProduct",
    "conventions.notebook-parity": "TorchsHalfState",
    "conventions.notebook-ranges": "DecksHardSigmoid",
    "conventions.convex-state": "SumForMean",
    "conventions.lstm-cell-grows": "ClippedCell NaiveTanhOfTheCell",
    # The carousel
    "carousel.preserves-cell": "LeakyForgetGate",
    "carousel.notebook-thousand-steps": "LeakyForgetGate",
    "carousel.forty-is-one": "LeakyForgetGate",
    "carousel.minus-forty-is-zero": "HardSigmoid",
    "carousel.minus-forty-is-small": "HardSigmoid",
    "carousel.preserved-indefinitely": "HardSigmoid",
    "carousel.drift-at-forty": "HardSigmoid",
    "carousel.error-is-constant": "TruncatedBackward CellDetached",
    "carousel.leak-bound": "NoInputGate",
    "carousel.deck-gru-is-frozen": "DecksUpdateKeeps DecksHalfState",
    "carousel.deck-gru-printed": "DecksHardSigmoid",
    "carousel.gru-frozen-for-every-state": "DecksHardSigmoid",
    "carousel.gru-frozen-to-rounding": "LeakyState",
    "carousel.same-gates-opposite-outcome": "UpdateWrites",
    # Forced gates
    "forced-gates.rnn-with-a-second-tanh": "NoOutputTanh",
    "forced-gates.notebook-almost": "NoOutputTanh",
    "forced-gates.notebook-values": "HardSigmoid",
    "forced-gates.bounded": "NoOutputTanh",
    "forced-gates.who-erases": "ExchangedGates",
    "forced-gates.output-gate-exposes": "NoOutputTanh",
    "forced-gates.gru-as-rnn": "InnerBiasLeftOut",
    "forced-gates.gru-as-mlp": "ResetIgnored",
    "forced-gates.reset-does-not-forget": "ResetOnTheState",
    "forced-gates.reset-forgets": "UpdateStuckAtZero",
    # The highway
    "highway.lstm-product": "TanhOnTheHighway CellDetached",
    "highway.gru-product": "DetachedState",
    "highway.no-matrix-on-it": "TanhOnTheHighway",
    "highway.whole-jacobian": "HiddenStateDetached",
    "highway.decomposition": "TruncatedBackward",
    "highway.closed-output-gate": "GatesPeep",
    "highway.gru-route-stays-open": "UpdateBlindToState",
    "highway.per-unit": "OneForgetGateForAll",
    "highway.rnn-product": "TanhTwiceInTheRNNsDerivative",
    "highway.lesson-product": "LessonsBackward",
    "highway.notebook-lstm": "ForgetBiasTwice",
    "highway.notebook-gru": "DecksUpdateKeeps",
    "highway.jacobian-table": "HiddenStateDetached",
    "highway.off-diagonal-norm": "HiddenStateDetached",
    "highway.off-diagonal-entries": "CellOneUnitOff",
    "highway.diagonal-entries": "CellOneUnitOff",
    "highway.guaranteed-floor": "HiddenStateDetached CellGradientTwice",
    "highway.no-floor": "HiddenStateDetached",
    "highway.three-objects": "HiddenStateDetached TanhTwiceInTheRNNsDerivative",
    "highway.set-by-the-bias-alone": "ForgetGateFromBiasAlone",
    "highway.lstm-reach": "HiddenStateDetached",
    "highway.rnn-reach-decays": "NoTanh",
    "highway.spectral-radius": "NoTanh",
    "highway.rnn-explodes-on-the-slider": "NoTanh",
    "highway.rnn-never-flat": "NoTanh CoarseScale",
    "highway.rnn-crossover": "NoTanh CoarseScale",
    "highway.beyond-the-product": "HiddenStateDetached",
    "highway.indirect-terms-vanish-or-explode": "HiddenStateDetached",
    "highway.bias-lifts-reach": "HiddenStateDetached",
    "highway.curve-above-the-floor": "HiddenStateDetached",
    "highway.half-life": "LeakyForgetGate",
    "highway.forget-gate-alone-decides": "HiddenStateDetached",
    # Back-propagation through time
    "bptt.one-factor-a-step": "TanhTwiceInTheRNNsDerivative LessonsBackward",
    "bptt.shrinks-for-every-matrix": "SpectrallyBounded",
    "bptt.bounded-by-singular-values": "ZoneoutLeftOn NoTanh",
    "bptt.sum-over-steps": "KernelGradientOneStepLate LessonsBackward",
    "bptt.a-step-has-one-path": "ZoneoutLeftOn",
    "bptt.recent-terms-dominate": "ZoneoutLeftOn",
    "bptt.thirty-steps-thirty-factors": "OneStepTooMany",
    "bptt.factors-between-steps": "OneStepTooMany",
    "bptt.cell-step-is-linear": "GatesPeep TanhOnTheHighway",
    "bptt.cell-meets-no-matrix": "HiddenStateDetached",
    # The paths of a gradient
    "paths.sum-of-all": "HiddenStateDetached CellDetached output_gate_route_forgotten",
    "paths.listed": "HiddenStateDetached output_gate_route_forgotten",
    "paths.counts": "GatesBlindToState output_gate_route_forgotten",
    "paths.growth": "HiddenStateDetached output_gate_route_forgotten",
    "paths.branches": "CoupledInputGate",
    "paths.factors-as-printed": "KernelNotTransposed",
    "paths.factors-as-rows": "KernelNotTransposed TanhTwiceInTheRNNsDerivative",
    "paths.thirty-gates": "LeakyForgetGate",
    "paths.thirty-gates-between": "BlankAfterTheFirst",
    "paths.forget-gate-route": "HardSigmoid",
    "paths.highway-is-one-of-them": "HiddenStateDetached",
    # The four routes through a GRU
    "routes.equations": "UpdateWrites ResetBeforeProduct",
    "routes.reset-gate-limits-the-candidate": "ResetIgnored",
    "routes.four-formulas": "UpdateGateKernelFirst ResetGateByBrackets DetachedState",
    "routes.update-formula-as-printed": "UpdateGateKernelFirst",
    "routes.reset-formula-as-printed": "ResetGateByBrackets",
    "routes.without-what-arrives": "upstream_of_a_sum",
    "routes.sixteen": "DetachedState reset_gate_route_forgotten",
    "routes.direct-route-survives": "LeakyState",
    "routes.update-route-near-one": "TorchsHardSigmoid",
    "routes.keeping-suppresses-the-candidate": "SumForMean",
    "routes.reset-route-takes-over": "SumForMean",
    "routes.reset-route-needs-writing": "SumForMean",
    "routes.candidate-route-is-an-rnns": "UpdateWrites",
    # Forgetting
    "forgetting.notebook-trace": "NoTanh",
    "forgetting.gone-in-a-handful-of-steps": "ZoneoutLeftOn",
    "forgetting.points-nowhere-near": "ZoneoutLeftOn",
    "forgetting.nothing-protects-the-signal": "RecurrenceLeftOut",
    "forgetting.a-latch-keeps-it": "RecurrenceLeftOut",
    "forgetting.small-weights-shrink-the-state": "InputLeftOut",
    "forgetting.inputs-drive-the-state": "InputLeftOut",
    "forgetting.moves-without-noise": "ZoneoutLeftOn",
    "forgetting.small-scale-collapses-faster": "InputLeftOut",
    "forgetting.small-scale-follows-its-inputs": "InputLeftOut",
    "forgetting.no-setting-keeps-it": "ZoneoutLeftOn",
    "forgetting.no-scale-holds-the-signal": "RecurrenceLeftOut",
    "forgetting.widget-six": "RecurrenceLeftOut",
    # Variants
    "variants.peephole-equations": "OutputPeepsAtTheOldCell PeepholeAfterTheSigmoid PeepholesExchanged",
    "variants.layout-of-peepholes": "PeepholesExchanged",
    "variants.gates-blind-behind-a-shut-output": "GatesPeep",
    "variants.peepholes-see-behind-a-shut-output": "PeepholesIgnored",
    "variants.coupled-writes-where-it-forgets": "GatesNotCoupled",
    "variants.coupled-is-the-tied-lstm": "ExchangedGates GatesNotCoupled",
    "variants.notebook-shapes": "StateTransposed",
    "variants.parameter-counts": "LSTMWithSecondBiases CoupledLSTMWithInputGate",
    "variants.full-peepholes-add-matrices": "OnePeepholeMatrix",
    "variants.diagonal-peepholes-add-vectors": "OnePeepholeVector",
    "variants.peepholes-add-matrices": "DiagonalPeepholesStoredInFull",
    "variants.gru-is-the-coupled-lstm": "GRUFromCoupledLSTM",
    "variants.only-the-blend-is-shared": "UpdateWrites",
    # Parameters
    "parameters.formula": "LSTMWithSecondBiases",
    "parameters.start": "BeginsWithinOne",
    "parameters.second-bias": "LSTMWithSecondBiases",
    "parameters.recall-models": "LSTMWithSecondBiases",
    "parameters.three-quarters": "GRUWithSecondBiases",
    "parameters.ratio-never-changes": "GRUWithoutInnerBias",
    "parameters.ratio-by-bias-convention": "GRUWithSecondBiases",
    "parameters.inner-bias": "GRUWithoutInnerBias",
    "parameters.coupled-like-gru": "CoupledLSTMWithInputGate",
    "parameters.quadratic-once-h-exceeds-d": "SquareInputKernels",
    "parameters.exponent": "DiagonalRecurrence",
    "parameters.which-term-dominates": "DiagonalRecurrence",
    "parameters.layers-of-the-module": "ResetIgnored",
    # The cells in comparison
    "comparison.gates-prevent-vanishing": "ForgetGateStuckOpen",
    "comparison.gates-mitigate": "CellDetached DetachedState",
    "comparison.forgetting-bounds-a-stream": "ForgetGateStuckOpen",
    "comparison.gated-path-is-a-residual": "GatesLeftOut",
    "comparison.residual-has-open-gates": "CoupledInputGate TanhOnTheHighway",
    "comparison.one-state-one-gate-for-two": "SumForMean ResetOnTheState",
    "comparison.lstm-counts": "LeakyForgetGate CellInHalf SumForMean",
    "comparison.forget-gate-starts-positive": "forget_bias_starts_at_one",
    "comparison.on-par-in-the-end": "never_learns gated_cells_never_learn",
    "comparison.lstm-manages-distance": "learns_at_once",
    # An LSTM worked by hand
    "hand-worked.forward": "ExchangedGates NoOutputTanh CellOneUnitOff RoundedAtEveryStep",
    "hand-worked.inline-product": "NoOutputTanh",
    "hand-worked.gates-in-words": "HardSigmoid",
    "hand-worked.same-word-other-state": "StateNotCarried",
    "hand-worked.losses": "NoOutputTanh loss_in_bits",
    "hand-worked.just-above-uniform": "loss_in_bits",
    "hand-worked.logit-deltas": "error_of_the_summed_loss",
    "hand-worked.outer-products": "NoOutputTanh error_of_the_summed_loss",
    "hand-worked.printed-from-printed": "digits_kept_in_the_calculator",
    "hand-worked.rounded-only-in-print": "RoundedAtEveryStep loss_in_bits",
    "hand-worked.read-out-gradient": "NoOutputTanh StateNotCarried",
    "hand-worked.ten-matrices": "HiddenStateDetached CellDetached TanhTwiceInTheDerivative",
    "hand-worked.gradient-of-the-last-loss": "error_of_the_summed_loss",
    "hand-worked.gradient-of-the-mean-loss": "error_of_the_summed_loss",
    "hand-worked.loss-by-epoch": "OmittedStateIsTheLastOne CellDetached learns_at_the_default_rate weights_decay",
    "hand-worked.predictions-settle": "learns_at_the_default_rate",
    "hand-worked.three-orders": "learns_at_the_default_rate",
    "hand-worked.loss-after-the-epoch": "steps_before_it_looks",
    "hand-worked.loss-before-the-update": "steps_before_it_looks",
    "hand-worked.every-parameter-moves": "weights_decay",
    "hand-worked.machine-row-stays": "weights_decay",
    "hand-worked.memorisation": "learns_at_the_default_rate",
    # Recall over a gap
    "recall.task": "fillers_drawn_first",
    "recall.protocol": "fillers_drawn_first gradients_not_clipped",
    "recall.gates-at-the-start": "HardSigmoid",
    "recall.gru-gate-at-the-start": "UpdateWrites",
    "recall.rnn-short-gaps": "never_learns",
    "recall.rnn-always-learns-ten": "learns_at_once",
    "recall.rnn-mostly-learns-ten": "never_learns",
    "recall.rnn-long-gaps": "learns_at_once",
    "recall.rnn-stays-at-chance": "learns_at_once",
    "recall.rnn-cost-grows": "learns_at_once",
    "recall.lstm-all-gaps": "never_learns",
    "recall.lstm-steps-regardless-of-gap": "learns_at_once",
    "recall.lstm-steps-hardly-grow": "never_learns",
    "recall.gru-all-gaps": "never_learns",
    "recall.gru-slower-than-lstm": "learns_at_once",
    "recall.gru-slower-than-rnn": "learns_at_once",
    "recall.gru-slower-than-rnn-at-twenty": "gated_cells_never_learn",
    # What the forget bias decides
    "forget-bias.what-survives-a-gap": "HardSigmoid LeakyForgetGate",
    "forget-bias.two-biases-add-up": "HardSigmoid BeginsWithForgetBiasInBoth",
    "forget-bias.default-is-zero": "biases_start_at_zero",
    "forget-bias.zero-does-not-learn": "learns_at_once",
    "forget-bias.one-never-learns": "never_learns",
    "forget-bias.one-seldom-learns": "learns_at_once",
    "forget-bias.one-stays-at-chance": "never_learns",
    "forget-bias.one-has-begun": "never_learns",
    "forget-bias.two-learns-within-a-hundred": "learns_at_once",
    "forget-bias.two-mostly-learns": "never_learns",
    "forget-bias.three-learns": "never_learns",
    "forget-bias.threshold": "never_learns learns_at_once",
    "forget-bias.gap-80": "never_learns",
    "forget-bias.less-highway-than-the-rule": "never_learns",
    # Inside a trained LSTM
    "inside.reproduced": "broken_layers",
    "inside.predictions": "unlearns_everything",
    "inside.forget-gate-stays-open": "undoes_the_forget_bias unlearns_everything",
    "inside.cell-integrates": "unlearns_everything",
    "inside.writes-less-at-the-key": "unlearns_everything",
    "inside.gates-depend-on-context": "unlearns_everything",
    "inside.pattern-survives": "undoes_the_forget_bias unlearns_everything",
    "inside.units-drift-one-way": "unlearns_everything",
    # Where the gradient goes
    "gradient-flow.lstm-at-the-start": "HiddenStateDetached CellDetached",
    "gradient-flow.rnn-at-the-start": "TanhTwiceInTheRNNsDerivative",
    "gradient-flow.gru-at-the-start": "UpdateWrites",
    "gradient-flow.only-ratios-compare": "GradientOverTheBatchSize",
    "gradient-flow.more-than-a-product-of-gates": "HiddenStateDetached",
    "gradient-flow.low-bias-is-like-an-rnn": "ForgetGateStuckOpen",
    "gradient-flow.rnn-constant-factor": "RecurrenceByAConstant",
    "gradient-flow.rnn-drifting-factor": "RecurrenceByAConstant",
    "gradient-flow.training-widens-the-ratio": "never_learns",
    "gradient-flow.trained-gru": "never_learns",
    "gradient-flow.trained-rnn": "becomes_an_isometry",
    "gradient-flow.rnn-is-where-it-started": "never_learns",
    "gradient-flow.rnn-has-moved": "never_learns",
    "gradient-flow.small-because-the-loss-is": "unlearns_everything",
    "gradient-flow.flat-over-the-second-half": "never_learns",
    "gradient-flow.forget-gates-alone": "undoes_the_forget_bias",
    # Causes, controls and the exercises
    "exercises.shut-input-gate-slows-the-lstm": "learns_at_once",
    "exercises.lower-bias-speeds-up-the-gru": "learns_at_once",
    "exercises.lower-bias-speeds-up-every-gap": "learns_sooner_at_low_bias",
    "exercises.architecture-alone": "learns_at_once",
    "exercises.orthogonal-rnn-learns": "never_learns",
    "exercises.identity-rnn-seldom-learns": "learns_at_once",
    "exercises.peephole-is-like-the-lstm": "never_learns",
    "exercises.peephole-helps-to-count": "never_learns learns_at_once",
    "exercises.coupled-is-like-the-gru": "never_learns",
    "exercises.reset-placement-hardly-matters": "never_learns",
    "exercises.rnn-escapes": "learns_at_once",
    "exercises.purer-highway": "HiddenStateDetached",
    # What a cell costs
    "cost.multiply-adds": "UnusedOutputGate PaddedTo128",
    "cost.three-quarters": "UnusedOutputGate",
    "cost.same-order-on-every-machine": "lstm_without_a_kernel",
    "cost.fewer-operations": "UnusedOutputGate NoOutputTanh",
    "cost.less-memory": "PlainExponentials",
    "cost.reset-after-is-cheaper": "DiagonalCandidate",
    "cost.reset-after-leaves-one-product": "ResetBeforeProduct ResetAfterProduct",
    "cost.work-grows-with-the-gap": "PaddedTo128",
    "cost.distance-costs-nothing": "PaddedTo128",
    "cost.whole-notebook": "PaddedTo128",
}
"""The faults of `planted` that turn each claim, its natural enemies first of all."""

CLAIMS_OF: dict[str, list[str]] = {}
for _claim, _faults in TURNED_BY.items():
    for _fault in _faults.split():
        CLAIMS_OF.setdefault(_fault, []).append(_claim)


def test_every_claim_is_here():
    assert set(TURNED_BY) == set(the_catalogue().claims)


def test_every_fault_is_used():
    assert set(CLAIMS_OF) == set(PLANTED)


def not_turned(fault, claims, monkeypatch):
    """The claims that say of a faulty cell what they say of a sound one, or say nothing by measurement."""
    for patch in PATCHES.get(fault, []):
        monkeypatch.setattr(*patch)
    said = verdicts(PLANTED[fault], claims)
    return {claim: str(said[claim]) for claim in claims if not said[claim].turned}


@pytest.mark.parametrize("fault", sorted(CLAIMS_OF))
def test_a_planted_fault_turns(fault, monkeypatch):
    """Every claim that names the fault says the opposite of what is expected of a sound cell."""
    assert not not_turned(fault, CLAIMS_OF[fault], monkeypatch)


def test_a_sound_cell_turns_nothing():
    """What turns a claim is the fault, not how it is planted."""
    lstm = next(subject for subject in BUILT_IN if subject.kind == "lstm")
    claims = [claim for claim in TURNED_BY if claim.startswith(("cells.", "carousel."))]
    assert not [claim for claim, judged in verdicts(lstm, claims).items() if judged.turned]
