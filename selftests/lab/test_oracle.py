# SPDX-License-Identifier: GPL-2.0
"""The oracle over real runs of all policies: none differs.  And over modules with one line wrong:
each does."""

import dataclasses
import functools
import shutil

import pytest

from bench.lab import image, machine
from bench.lab.paths import TOP
from bench.lab.run import Lab
from bench.lab.scenario import Flow
from selftests import oracle

pytestmark = pytest.mark.lab

POLICIES = ("hybla_full", "mtsi", "ibk", "constant_rate", "westwood_abse")
EACH_ACK = {"quickack": 1}
ECN = {"sysctl": {"net.ipv4.tcp_ecn": 1}}


def rough(geo):
    """A flow of each policy on one link with all that happens to links: loss, outages of a second
    and of five with calm after each, marks, a longer path, reordering.  They start 100 ms apart:
    first flights, of 30 ms, do not meet.

    The parameters have them meet what they seldom do: windows next to a threshold of mtsi, below K
    of ibk; and hybla_full leaves the others room.
    """
    made = geo(rate_mbit=4, seconds=65, loss_pct=0.3, sender=ECN, receiver=ECN, modules={
        "tcp_hybla_full": {"rtt0_ms": 150}, "tcp_mtsi": {"thr": "15,23,41"}, "tcp_ibk": {"k": 16}})
    limit = made.flight_packets()

    def link(what, seconds, delay="300ms"):
        return (f"tc -n satellite qdisc change dev right root netem limit {limit} "
                f"delay {delay} {what}; sleep {seconds}; ")
    course = "sleep 12; " + "".join([
        link("loss 100%", 1), link("", 8), link("loss 100%", 5), link("", 12), link("loss 2%", 3),
        link("loss 10% ecn", 10), link("loss 0.1%", 6, "700ms"), link("reorder 99% gap 20", 4),
        link("loss 0.1%", 0)])
    return dataclasses.replace(made, commands=(course,), flows=tuple(
        Flow(policy, seconds=65, start_s=n / 10) for n, policy in enumerate(POLICIES)))


def unusual(geo):
    """No parameter at its default, a pause of three seconds, a timeout, and a flow that goes from
    policy to policy."""
    made = geo(rate_mbit=4, seconds=1, loss_pct=0.3, capture=False, modules={
        "tcp_hybla_full": {"rtt0_ms": 150, "loss_hybla": 1, "hoe_wait_train": 1, "hoe_scale": 150,
                           "hoe_min_acks": 5, "gamma": 10, "iw_rho": 1, "rho_max": 3},
        "tcp_mtsi": {"mode": "linear", "loss_mtsi": 1, "iw": 6, "f0": 1, "f_max": 9, "linear_thr": 60},
        "tcp_ibk": {"k_auto": 1, "rtt_min_ms": 300, "rtt_ref_ms": 250},
        "tcp_constant_rate": {"c": 30, "use_min_rtt": 1, "bound": 0},
        "tcp_westwood_abse": {"history": 0, "tau_n": 4, "recovery_start": 0, "t_min_div": 4}})
    path = f"tc -n satellite qdisc change dev right root netem limit {made.flight_packets()} delay 300ms"
    changes = tuple((4000 + 2500 * n, policy) for n, policy in enumerate(POLICIES * 2))
    return dataclasses.replace(
        made, commands=(f"sleep 20; {path} loss 100%; sleep 3; {path} loss 1%",),
        flows=(Flow("cubic", seconds=40, changes=changes), *(
            Flow(policy, bytes=1_500_000, start_s=n, pause_ms=3000)
            for n, policy in enumerate(POLICIES, 1))))


def dense(geo):
    """Runs in which nearly every ACK moves the window."""
    wide = {"rate_mbit": 100, "queue_packets": 20_000, "bytes": 30_000_000, "receiver": EACH_ACK,
            "capture": False}
    lossy = {"rate_mbit": 10, "seconds": 60, "receiver": EACH_ACK, "capture": False}
    yield geo("mtsi", modules={"tcp_mtsi": {"mode": "const", "const_k": 1}}, **wide)
    yield geo("constant_rate", modules={"tcp_constant_rate": {"c": 10_000}}, **wide)
    yield geo("ibk", modules={"tcp_ibk": {"k": 255}}, **wide)
    yield geo("westwood_abse", modules={"tcp_westwood_abse": {"astart": 0}}, **wide)
    yield geo("hybla_full", modules={"tcp_hybla_full": {"hoe": 0}}, **wide)
    yield geo("hybla_full", modules={"tcp_hybla_full": {"hoe": 0, "gamma": 20_000, "rtt0_ms": 500}},
              **wide)
    yield geo("hybla_full", **lossy)
    yield geo("constant_rate", modules={"tcp_constant_rate": {"c": 1600}}, **lossy)


def test_100_000_windows(lab, geo):
    """Tolerance 0: each window is what the paper's equations make of the one before."""
    total, policies = 0, set()
    for made in [rough(geo), *dense(geo)]:
        report = oracle.check(lab.run(made)).raise_first()
        print(report)
        policies |= set(report.counts)
        total += report.changes
    print(f"{total} window changes recomputed")
    assert policies == set(POLICIES)
    assert total >= 100_000


def test_unusual_parameters_and_changes_of_policy(lab, geo):
    run = lab.run(unusual(geo))
    print(report := oracle.check(run).raise_first())
    assert set(report.counts) == set(POLICIES)
    for policy, count in report.counts.items():
        _, records = run.events[f"satcc:{policy}"]
        assert count.flows == 2 and {1, 9} <= set(records["event"].tolist()), policy


def test_rough_run_has_it_all(lab, geo):
    """Or the mutants below could not tell."""
    report = oracle.check(lab.run(rough(geo))).raise_first()
    assert set(report.counts) == set(POLICIES)
    events = lab.run(rough(geo)).events
    for policy in POLICIES:
        _, records = events[f"satcc:{policy}"]
        states = set(records["ca_state"].tolist())
        assert {0, 3, 4} <= states and len(records) > 300, (policy, states, len(records))
    _, records = events["satcc:westwood_abse"]
    assert records["mark"].any()


# policy -> (what is wrong, file, text, text instead).  The texts occur once.
MUTANTS = {
    "hybla_full": [
        ("acked counts as 1", "hybla/tcp_hybla_full.c",
         "basis.rho_q16, acked)", "basis.rho_q16, 1)"),
        ("rho^2 is 1/65536 too much", "modules/rho.h",
         "rho_q16 * rho_q16 >> SATCC_Q16_SHIFT;", "rho_q16 * rho_q16 / SATCC_Q16_ONE + 1;"),
        ("credit outlives a loss", "hybla/tcp_hybla_full.c",
         "ca->credit = (struct satcc_credit){};", ""),
        ("the last RTT is the minimum", "hybla/tcp_hybla_full.c",
         "ca->min_rtt_us && rtt_us >= ca->min_rtt_us", "ca->min_rtt_us == rtt_us"),
        ("Hoe's sum of t a has a square", "modules/hoe.h",
         "hoe->sum_ta += t_us * pkts;", "hoe->sum_ta += t_us * pkts * pkts;"),
        ("a loss leaves the window", "hybla/tcp_hybla_full.c",
         "ev.ssthresh = tcp_reno_ssthresh(sk);", "ev.ssthresh = max(ev.cwnd, 2U);"),
    ],
    "mtsi": [
        ("acked counts as 1", "mtsi/tcp_mtsi.c",
         "min(acked, 1U) : acked;", "min(acked, 1U) : 1;"),
        ("a zone ends a segment early", "mtsi/mtsi_increase.h",
         "growth->cwnd >= rule->thr[zone]", "growth->cwnd + 1 >= rule->thr[zone]"),
        ("F outlives a timeout", "mtsi/tcp_mtsi.c",
         "if (new_state == TCP_CA_Loss)\n\t\tmtsi_reset(sk);", ""),
        ("F is 2 above the thresholds", "mtsi/tcp_mtsi.c", ".above = 1,", ".above = 2,"),
        ("the first K everywhere", "mtsi/mtsi_increase.h", "rule->k[zone];", "rule->k[0];"),
        ("a loss leaves the window", "mtsi/tcp_mtsi.c",
         "ev.ssthresh = tcp_reno_ssthresh(sk);", "ev.ssthresh = max(ev.cwnd, 2U);"),
    ],
    "ibk": [
        ("acked counts as 1", "ibk/tcp_ibk.c",
         "basis.k_q16, acked)", "basis.k_q16, 1)"),
        ("no bound", "ibk/ibk.h", "min_t(u64, k_q16, price_q16)", "k_q16"),
        ("credit outlives a loss", "ibk/tcp_ibk.c", "ca->credit_q16 = 0;", ""),
        ("no growth at ssthresh", "ibk/ibk.h",
         "if (!acked)", "if (cwnd < ssthresh || cwnd == min(ssthresh, limit))"),
        ("K is one more", "ibk/ibk.h",
         "return config->k << SATCC_Q16_SHIFT;", "return (config->k + 1) << SATCC_Q16_SHIFT;"),
        ("a loss leaves the window", "ibk/tcp_ibk.c",
         "ev.ssthresh = tcp_reno_ssthresh(sk);", "ev.ssthresh = max(ev.cwnd, 2U);"),
    ],
    "constant_rate": [
        ("acked counts as 1", "constant_rate/tcp_constant_rate.c",
         "basis.a_q20, basis.bound, acked)", "basis.a_q20, basis.bound, 1)"),
        ("c rtt", "constant_rate/constant_rate.h",
         "c * rtt * rtt;", "c * rtt * 1000000;"),
        ("credit outlives a loss", "constant_rate/tcp_constant_rate.c", "ca->credit_q20 = 0;", ""),
        ("the remainder is dropped, as in ns-2", "constant_rate/constant_rate.h",
         "return satcc_avoid_by(credit_q20, cwnd, limit, a_q20, price_q20, acked);",
         "limit = satcc_avoid_by(credit_q20, cwnd, limit, a_q20, price_q20, acked);"
         "\n\tif (limit > cwnd)\n\t\t*credit_q20 = 0;\n\treturn limit;"),
        ("the minimum RTT for the smoothed", "constant_rate/tcp_constant_rate.c",
         "satcc_param(use_min_rtt) ?", "!satcc_param(use_min_rtt) ?"),
        ("no bound", "constant_rate/constant_rate.h", "if (bound)", "if (!bound)"),
    ],
    "westwood_abse": [
        ("alpha from tau, not two", "westwood_abse/abse.h",
         "u32 two_tau = 2 * tau_us;", "u32 two_tau = tau_us;"),
        ("U_max never ages", "westwood_abse/abse.h",
         "hist->u_q16[hist->u_next] = u_q16;",
         "hist->u_q16[hist->u_next] = max_t(u64, u_q16, hist->u_q16[hist->u_next]);"),
        ("RE over half a round trip", "westwood_abse/abse.h",
         "*window_us < rtt_us &&", "*window_us < rtt_us / 2 &&"),
        ("the window is not BSE RTT_min", "westwood_abse/tcp_westwood_abse.c",
         "abse_window(rate_q16, ca->min_rtt_us)", "abse_window(rate_q16, 1000000)"),
        ("a mark reduces nothing", "westwood_abse/tcp_westwood_abse.c",
         "if (basis.mark)\n\t\t\tev.ssthresh = min(ev.ssthresh, westwood_part(ev.cwnd));", ""),
        ("Astart never raises", "westwood_abse/tcp_westwood_abse.c",
         "else if (target <= ev.ssthresh)", "else"),
    ],
}


class FaultyLab(Lab):
    """The lab with the n-th fault of every policy in its modules.

    Booted if a run is not in the cache; what that leaves, 200 MB, is not kept: other images' states
    would be forgotten for it.
    """

    def __init__(self, n: int):
        texts = {}
        self.faults = {}
        for policy, mutants in MUTANTS.items():
            if n < len(mutants):
                self.faults[policy], name, text, instead = mutants[n]
                source = texts.get(name) or (TOP / name).read_text()
                assert source.count(text) == 1, (policy, name, text, source.count(text))
                texts[name] = source.replace(text, instead)
        self.image = image.build(instead=tuple(sorted(texts.items())))

    @functools.cached_property
    def snapshot(self):
        return machine.snapshot(self.image)

    def forget(self):
        if "snapshot" in vars(self):
            shutil.rmtree(self.snapshot.state.parent)
        self.image.initramfs.unlink()


@pytest.mark.parametrize("n", range(max(map(len, MUTANTS.values()))))
def test_each_fault_is_found(geo, n):
    """One image a round: the n-th fault of every policy, each seen by the oracle in its flow."""
    lab = FaultyLab(n)
    try:
        report = oracle.check(lab.run(rough(geo)))
    finally:
        lab.forget()
    found = {difference.policy: difference for difference in report.differences}
    for policy, what in lab.faults.items():
        print(f"{policy}: {what}: {str(found.get(policy)).splitlines()[0]}")
    assert set(found) == set(lab.faults), set(lab.faults) - set(found)
