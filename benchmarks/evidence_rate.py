"""Decided training runs per second: the gate's way against the documented protocol, side by side on this machine.

Both decide the notebook's 20 configurations (RNN, LSTM and GRU at five gaps; the LSTM at gap 40 with five forget
biases) for seed 0. The documented way is one process with torch's default threads that trains every network through
all its steps. The gate's way is its own: one thread per worker, longest runs first, a run ends when its verdict is
known, and nothing is trained twice: the bias sweep's bias 5 is the run of gap 40.

    python -m benchmarks.evidence_rate [--workers N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from fixtures import devices

GAPS, BIASES = (5, 10, 20, 40, 80), (0.0, 1.0, 2.0, 3.0, 5.0)
ROOT = Path(__file__).parents[1]


def configurations():
    """The documented runs as protocols."""
    from reference.training import Protocol

    keep = {"RNN": 0.0, "LSTM": 5.0, "GRU": 5.0}
    runs = [Protocol(net, gap, keep_bias=keep[net]) for net in keep for gap in GAPS]
    return runs + [Protocol("LSTM", 40, keep_bias=bias, steps=400) for bias in BIASES]


def documented(protocol):
    """One run as the notebook trains it: batch first, all steps, accuracy on 1000 sequences every 25 steps."""
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy, one_hot

    from reference import recall

    torch.manual_seed(0)
    layer = getattr(nn, protocol.net)(recall.WIDTH, 64, batch_first=True)
    head = nn.Linear(64, recall.KEYS)
    if protocol.keep_bias:
        with torch.no_grad():
            layer.bias_ih_l0[64:128].fill_(protocol.keep_bias)
            layer.bias_hh_l0[64:128].zero_()
    parameters = [*layer.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-3)
    test, _ = recall.held_out("recall", 1000, protocol.gap)
    test_x, right = one_hot(test, recall.WIDTH).float(), []
    for step in range(protocol.steps):
        symbols = recall.tokens(128, protocol.gap, torch.default_generator)
        loss = cross_entropy(head(layer(one_hot(symbols, recall.WIDTH).float())[0][:, -1]), symbols[:, 0])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        loss.item()
        if step % 25 == 0 or step == protocol.steps - 1:
            with torch.no_grad():
                right.append((head(layer(test_x)[0][:, -1]).argmax(1) == test[:, 0]).float().mean().item())
    return right


def the_documented_way():
    """All configurations one after the other, in this process, with torch's default threads."""
    for protocol in configurations():
        documented(protocol)


def the_gates_way(folder):
    """A worker of the gate: what it trains of the configurations is in the folder when it ends."""
    from fixtures import store
    from fixtures.store import Planned, Store

    devices.settle_environment()
    devices.settle_torch("cpu")
    expected = {"RNN": (100, 180, 210, 800, 800), "LSTM": (60, 60, 60, 70, 100), "GRU": (280, 280, 290, 330, 380)}
    entries, protocols = {}, configurations()
    for k, protocol in enumerate(protocols):
        if protocol.steps < 800 and replace(protocol, steps=800) in protocols:
            continue  # the longer run decides it too
        steps = expected[protocol.net][GAPS.index(protocol.gap)] if protocol.steps == 800 else 400
        entries[f"run-{k}"] = Planned(protocol, seeds=1, expected_steps=steps)
    store.table = lambda: entries
    Store(Path(folder), "cpu", list(entries)).work_through()


def timed(call, environment=None, processes=1):
    """Wall time of so many processes of this script that do the same call."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.evidence_rate", *call]
    workers = [subprocess.Popen(command, cwd=ROOT, env=environment) for _ in range(processes)]
    if any(worker.wait() for worker in workers):
        sys.exit("a worker failed; its message stands above")
    return time.perf_counter() - began


def where_the_time_goes(folder):
    """Processor seconds by net and gap."""
    import torch

    spent = defaultdict(float)
    for path in Path(folder).glob("*.run"):
        run = torch.load(path, weights_only=False)
        spent[f"{run.protocol.net:4} gap {run.protocol.gap:2}"] += run.seconds
    for name, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"  {name}  {seconds:6.1f} s of a processor")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="default: one per processor")
    parser.add_argument("--as", dest="role", choices=["documented", "gate"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "documented":
        return the_documented_way()
    if arguments.role == "gate":
        return the_gates_way(arguments.folder)
    of_a_worker = devices.ENVIRONMENT | os.environ
    runs = len(configurations())
    with tempfile.TemporaryDirectory() as folder:
        ours = timed(["--as", "gate", "--folder", folder], of_a_worker, arguments.workers)
        print(f"the gate's way:      {runs} runs decided in {ours:6.1f} s, {runs / ours:.2f} per second", flush=True)
        where_the_time_goes(folder)
    notebook = timed(["--as", "documented"])
    print(f"the documented way:  {runs} runs decided in {notebook:6.1f} s, {runs / notebook:.2f} per second")
    print(f"ratio:               {notebook / ours:.1f}")
    return None


if __name__ == "__main__":
    main()
