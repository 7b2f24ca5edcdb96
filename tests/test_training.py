"""Training on the recall task: the documented streams and protocol, and runs that are trained once and shared."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mini import PATIENCE

from fixtures import store as stores
from fixtures.progress import Progress
from fixtures.store import Planned, Store, as_if_stopped
from reference import networks, recall, training
from reference.networks import Together
from reference.training import Protocol

SHORT = Protocol("LSTM", 3, keep_bias=5.0, steps=60)


def test_the_batches_follow_the_weights_in_one_stream():
    """As in the notebook: `set_seed(seed)`, the layer, the head, then the batches."""
    torch.manual_seed(3)
    layer, head = torch.nn.LSTM(13, 64, batch_first=True), torch.nn.Linear(64, 8)
    keys = torch.randint(0, 8, (128,))
    filler = torch.randint(8, 12, (128, 5))
    model, stream = networks.initial(Protocol("LSTM", 5), seed=3)
    assert torch.equal(model.layer.weight_hh_l0, layer.weight_hh_l0)
    assert torch.equal(model.head.weight, head.weight)
    symbols = recall.tokens(128, 5, stream)
    assert torch.equal(symbols[:, 0], keys) and torch.equal(symbols[:, 1:-1], filler)


def test_seeding_leaves_torchs_global_stream_alone():
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    networks.initial(Protocol("GRU", 5), seed=0)
    assert torch.equal(torch.rand(3), expected)


def test_a_step_of_training_is_the_documented_one():
    """Adam at 1e-3 on gradients clipped to norm 1: against the notebook's loop, written out, for three steps."""
    protocol = replace(SHORT, steps=3, whole=True)
    model, stream = networks.initial(protocol, seed=1)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(3):
        symbols = recall.tokens(128, 3, stream)
        outputs, _ = model.layer(recall.inputs(symbols))
        loss = torch.nn.functional.cross_entropy(model.head(outputs[-1]), symbols[:, 0])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    [run] = training.train(protocol, [1])
    assert run.loss == pytest.approx(losses, abs=1e-6)


def test_a_run_stops_where_it_is_solved_and_evaluates_every_25_steps():
    [run] = training.train(replace(SHORT, steps=800), [0])
    assert run.solved and run.evaluated == list(range(0, run.first + 1, 25))
    assert run.accuracy[-1] >= 0.95 > max(run.accuracy[:-1], default=0.0)
    assert len(run.loss) == run.first + 1


def test_the_keep_bias_is_set_in_one_bias_and_cleared_in_the_other():
    model, _ = networks.initial(Protocol("GRU", 5, keep_bias=5.0), seed=0)
    assert torch.all(model.layer.bias_ih_l0[64:128] == 5.0) and torch.all(model.layer.bias_hh_l0[64:128] == 0.0)
    assert torch.any(model.layer.bias_ih_l0[:64] != 5.0)


@pytest.mark.parametrize("net", ["PeepholeLSTM", "CoupledLSTM", "DeckGRU", "ResetBeforeGRU"])
def test_a_reference_layer_trains_every_parameter(net):
    [run] = training.train(Protocol(net, 3, keep_bias=5.0, steps=2, whole=True), [0])
    still = [name for name, before in run.before.items() if torch.equal(before, run.after[name])]
    assert not still


@pytest.mark.parametrize("net", ["LSTM", "PeepholeLSTM", "DiagonalPeepholeLSTM", "DeckGRU", "GRU"])
def test_networks_side_by_side_are_trained_as_if_alone(net):
    """One tensor for the reference cells, turns for torch's layers; clipped and stepped seed by seed."""
    protocol = Protocol(net, 3, keep_bias=5.0, steps=60)
    together = training.train(protocol, [0, 1, 2])
    for run in together:
        [alone] = training.train(protocol, [run.seed])
        assert run.loss == pytest.approx(alone.loss, abs=1e-4), run.seed
        assert (run.evaluated, run.solved) == (alone.evaluated, alone.solved)
        assert run.after.keys() == alone.after.keys()
        assert all(torch.allclose(run.after[name], alone.after[name], atol=1e-3) for name in run.after)


def test_an_evaluation_ends_where_its_outcome_is_known():
    """A network at chance is asked 100 of the 1000 sequences, or all of them where that is asked for."""
    model, _ = networks.initial(Protocol("RNN", 5), seed=0)
    alone, (test, answers) = Together([model], "cpu"), recall.held_out("recall", 1000, 5)
    right, asked = training.evaluate(alone, test, answers, whole=True)
    said = model(recall.inputs(test)).argmax(1)
    assert (right.item(), asked) == (int((said == test[:, 0]).sum()), 1000)
    assert training.evaluate(alone, test, answers, whole=False)[1] == 100


def test_the_answer_may_be_how_long_ago_a_mark_was():
    symbols, answers = recall.sequences("gap-length", 50, 20, torch.Generator().manual_seed(0))
    assert symbols.shape == (50, 22) and torch.all(symbols[:, -1] == recall.QUERY)
    marks = symbols == 0
    assert torch.all(marks.sum(1) == 1) and torch.equal(marks.int().argmax(1), 2 * answers)
    assert torch.all((symbols[:, :-1] >= recall.KEYS) | marks[:, :-1])
    assert set(answers.tolist()) == set(range(8))


@pytest.mark.parametrize("recurrent", ["orthogonal", "identity"])
def test_isometries_start_as_isometries(recurrent):
    model, _ = networks.initial(Protocol("RNN", 5, recurrent=recurrent), seed=2)
    W = model.layer.weight_hh_l0.detach()
    assert torch.allclose(W @ W.T, torch.eye(64), atol=1e-5)


@pytest.fixture
def small_table(monkeypatch):
    entries = {
        "stopped": Planned(replace(SHORT, steps=30), seeds=3, expected_steps=30),
        "whole": Planned(replace(SHORT, steps=30, whole=True), seeds=2, expected_steps=30),
    }
    monkeypatch.setattr(stores, "table", lambda: entries)


def test_nothing_is_trained_twice(tmp_path, small_table, monkeypatch):
    trained = []
    monkeypatch.setattr(
        training,
        "train",
        lambda protocol, seeds, *rest: [trained.append((protocol, s)) or a_run(protocol, s) for s in seeds],
    )
    store = Store(tmp_path, "cpu", ["stopped", "whole"])
    store.work_through()
    again = Store(tmp_path, "cpu", ["stopped", "whole"])
    again.work_through()
    assert [run.seed for run in again.runs("stopped")] == [0, 1, 2]
    assert len(trained) == len(set(trained)) == 3, "seeds 0 and 1 serve both entries"


def a_run(protocol, seed):
    return training.Run(protocol, seed, evaluated=[0, 25], accuracy=[0.2, 0.96], loss=[2.0] * 30)


def test_a_whole_run_serves_a_stopped_one():
    run = training.Run(SHORT, 0, evaluated=[0, 25, 50], accuracy=[0.2, 0.96, 0.99], loss=[2.0] * 60)
    stopped = as_if_stopped(run, SHORT)
    assert (stopped.evaluated, stopped.accuracy, len(stopped.loss)) == ([0, 25], [0.2, 0.96], 26)
    assert stopped.first == run.first == 25


def test_longer_runs_come_first(tmp_path):
    plan = Store(tmp_path, "cpu", ["rnn-5", "rnn-80", "lstm-80-bias-2"]).plan
    assert [protocol.gap for protocol, _ in plan][:10] == [80] * 10
    assert plan[0][0].keep_bias == 2.0 and plan[-1][0].gap == 5


WORKER = """
import sys
from pathlib import Path
from dataclasses import replace
from fixtures import store
from fixtures.store import Planned, Store
from reference.training import Protocol
entry = Planned(Protocol("LSTM", 3, keep_bias=5.0, steps=20, whole=True), seeds=4, expected_steps=20)
store.table = lambda: {"short": entry}
train = store.training.train
def noted(*arguments):
    with open(sys.argv[2], "a") as log:
        log.writelines(f"{seed}\\n" for seed in arguments[1])
    return train(*arguments)
store.training.train = noted
Store(Path(sys.argv[1]), "cpu", ["short"]).work_through()
"""


def test_two_processes_share_the_work(tmp_path):
    root, log = Path(__file__).parents[1], tmp_path / "log"
    call = [sys.executable, "-c", WORKER, str(tmp_path / "runs"), str(log)]
    workers = [subprocess.Popen(call, cwd=root) for _ in range(2)]
    assert [worker.wait(timeout=PATIENCE) for worker in workers] == [0, 0]
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3"]


def test_progress_says_how_many_runs_remain(tmp_path):
    progress = Progress(tmp_path)
    try:
        assert progress.line() is None
        (tmp_path / "plan").write_text("3")
        (tmp_path / "a.run").touch()
        assert progress.line() == "training: 1 of 3 runs are done, 2 remain"
    finally:
        progress.stop()


def test_every_entry_of_the_table_can_be_built():
    for name, planned in stores.table().items():
        model, _ = networks.initial(planned.protocol, seed=0)
        assert sum(p.numel() for p in model.parameters()) > 0, name
        assert planned.expected_steps <= planned.protocol.steps, name
