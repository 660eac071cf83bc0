# SPDX-License-Identifier: GPL-2.0
"""The oracle over real runs of all policies: none differs.  And over modules with one line wrong:
each does."""

import dataclasses
import re
import subprocess
import sys

import pytest

from bench import oracle
from bench.lab import image, packages
from bench.lab.play import Lab
from bench.oracle import calls
from bench.paths import TOP, policies
from bench.scenario.scenario import Flow
from selftests.conftest import KERNEL, long
from selftests.lab import situations

pytestmark = pytest.mark.lab

POLICIES = policies()
EACH_ACK = {"quickack": 1}
ECN = {"sysctl": {"net.ipv4.tcp_ecn": 1}}


def rough(geo):
    """A flow of each policy on one link with all that happens to links: loss, outages of a second
    and of five with calm after each, marks, a longer path, reordering, delays, and reordering again.
    They start 100 ms apart: first flights, of 30 ms, do not meet.

    The parameters have them meet what they seldom do: windows next to a threshold of mtsi, below K
    of ibk; and hybla_full leaves the others room.
    """
    transfer = geo(rate_mbit=4, seconds=90, loss_pct=0.3, sender=ECN, receiver=ECN, modules={
        "tcp_hybla_full": {"rtt0_ms": 150}, "tcp_mtsi": {"thr": "15,23,41"}, "tcp_ibk": {"k": 16}})
    return dataclasses.replace(transfer, flows=tuple(
        Flow(policy, seconds=90, start_s=n / 10) for n, policy in enumerate(POLICIES)),
        commands=(situations.rough(transfer), situations.late_and_reordered(transfer, 76)))


def unusual(geo):
    """No parameter at its default, a pause of three seconds, a timeout, and a flow that goes from
    policy to policy."""
    transfer = geo(rate_mbit=4, seconds=1, loss_pct=0.3, capture=False, modules={
        "tcp_hybla_full": {"rtt0_ms": 150, "iw_rho": 1, "gentle": 1},
        "tcp_mtsi": {"mode": "linear", "loss_mtsi": 1, "linear_thr": 60},
        "tcp_ibk": {"k": 7}, "tcp_constant_rate": {"c": 30}})
    path = ("tc -n satellite qdisc change dev right root netem "
            f"limit {transfer.flight_packets()} delay 300ms")
    changes = tuple((4000 + 2500 * n, policy) for n, policy in enumerate(POLICIES * 2))
    return dataclasses.replace(
        transfer, commands=(f"sleep 20; {path} loss 100%; sleep 3; {path} loss 1%",),
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
    yield geo("westwood_abse", **wide)
    yield geo("hybla_full", **wide)
    yield geo("hybla_full", modules={"tcp_hybla_full": {"rtt0_ms": 500}}, **wide)
    yield geo("hybla_full", **lossy)
    yield geo("hybla_full", modules={"tcp_hybla_full": {"gentle": 1}}, **lossy)
    yield geo("constant_rate", modules={"tcp_constant_rate": {"c": 1600}}, **lossy)


@pytest.mark.long
def test_100_000_windows(lab, geo):
    """Tolerance 0: each window is what the paper's equations make of the one before."""
    total, policies = 0, set()
    for transfer in [rough(geo), *dense(geo)]:
        report = oracle.check(lab.run(transfer)).raise_first()
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
    for policy, policy_calls in calls.of_run(run, POLICIES).items():
        events = {(call.call, call.arg) for call in policy_calls if call.call == calls.CWND_EVENT}
        assert report.counts[policy].flows == 2
        assert sum(call.call == calls.INIT for call in policy_calls) >= 2
        assert (calls.CWND_EVENT, calls.CWND_RESTART) in events or oracle.MODELS[policy].CONTROL, policy


def test_the_rough_run_reaches_every_state_of_every_policy(lab, geo):
    """Or the mutants below could not tell."""
    report = oracle.check(lab.run(rough(geo))).raise_first()
    assert set(report.counts) == set(POLICIES)
    for policy, policy_calls in calls.of_run(lab.run(rough(geo)), POLICIES).items():
        states = {calls.OPEN, calls.CWR, calls.RECOVERY, calls.LOSS}
        assert states <= {call.arg for call in policy_calls if call.call == calls.SET_STATE}, policy
        assert {calls.SSTHRESH, calls.UNDO} <= {call.call for call in policy_calls}, policy
        grown = [call for call in policy_calls if call.call in (calls.CONG_AVOID, calls.CONG_CONTROL)]
        assert len(grown) > 300, policy


def test_a_kept_run_is_checked_by_the_command(lab, geo):
    """python3 -m bench oracle RUN, as its README prints it."""
    def oracle_of(folder):
        return subprocess.run([sys.executable, "-m", "bench", "oracle", str(folder)], cwd=TOP,
                              text=True, capture_output=True)
    run = lab.run(rough(geo))
    done = oracle_of(run.folder)
    assert done.returncode == 0, done.stderr
    for policy in POLICIES:
        assert re.search(rf"^{policy}: 1 flows, \d+ calls, \d+ window changes", done.stdout, re.M)
    done = oracle_of(run.folder.parent)
    assert done.returncode == 2 and "is not the folder of a run" in done.stderr
    assert "Traceback" not in done.stderr


# policy -> (what is wrong, file, text, text instead).  The texts occur once.
MUTANTS = {
    "hybla_full": [
        ("acked counts as 1", "hybla/tcp_hybla_full.c",
         "hybla_grow(sk, by_rho, acked));", "hybla_grow(sk, by_rho, 1));"),
        ("rho^2 is 1/65536 too much", "hybla/rho.h",
         "rho_q16 * rho_q16 >> SATCC_Q16_SHIFT;", "rho_q16 * rho_q16 / SATCC_Q16_ONE + 1;"),
        ("credit outlives a loss", "hybla/tcp_hybla_full.c",
         "if (new_state != TCP_CA_Disorder)\n\t\tca->credit = (struct hybla_credit){};", ""),
        ("the last RTT is the minimum", "hybla/tcp_hybla_full.c",
         "!ca->own_rtt_us || rtt_us < ca->own_rtt_us", "rtt_us"),
        ("Hoe's sum of t a has a square", "modules/hoe.h",
         "hoe->sum_ta += t_us * pkts;", "hoe->sum_ta += t_us * pkts * pkts;"),
        ("RTT samples are taken for three quarters", "hybla/tcp_hybla_full.c",
         "hybla_update_rtt(sk, sample->rtt_us);", "hybla_update_rtt(sk, sample->rtt_us / 4 * 3);"),
        ("it grows though cwnd is not the limit", "hybla/tcp_hybla_full.c",
         "\tif (!tcp_is_cwnd_limited(sk))\n\t\treturn;\n\n\tby_rho", "\tby_rho"),
        ("it is never paced after the train", "hybla/tcp_hybla_full.c",
         "satcc_cwnd_limit(tp));\n\tsatcc_pacing_enable(sk);", "satcc_cwnd_limit(tp));"),
        ("pacing ends with the first recovery", "hybla/tcp_hybla_full.c",
         "if (new_state == TCP_CA_Open)\n\t\treturn;",
         "if (new_state == TCP_CA_Open) {\n\t\tsk->sk_pacing_status = SK_PACING_NONE;"
         "\n\t\treturn;\n\t}"),
        ("RTT_min is of before the timeout", "hybla/tcp_hybla_full.c",
         "if (new_state == TCP_CA_Loss)\n\t\tca->own_rtt_us = 0;", ""),
        ("a queue shows at a quarter", "hybla/gentle.h",
         "#define HYBLA_QUEUE_DIV\t\t8", "#define HYBLA_QUEUE_DIV\t\t4"),
        ("it doubles beyond b", "hybla/gentle.h",
         "#define HYBLA_PROBE_DIV\t\t4", "#define HYBLA_PROBE_DIV\t\t1"),
    ],
    "mtsi": [
        ("acked counts as 1", "mtsi/tcp_mtsi.c",
         "min(acked, 1U) : acked;", "min(acked, 1U) : 1;"),
        ("a zone ends a segment early", "mtsi/mtsi_increase.h",
         "min(rule->thr[zone], target)", "min(rule->thr[zone] - 1, target)"),
        ("F outlives a timeout", "mtsi/tcp_mtsi.c",
         "if (new_state == TCP_CA_Loss)\n\t\tWRITE_ONCE(mtsi_state(sk)->f, 0);", ""),
        ("F is 2 above the thresholds", "mtsi/tcp_mtsi.c", ".above = 1 };", ".above = 2 };"),
        ("the first K everywhere", "mtsi/mtsi_increase.h", "rule->k[zone];", "rule->k[0];"),
        ("growth stops at 60 segments", "mtsi/tcp_mtsi.c",
         "if (!tcp_is_cwnd_limited(sk))", "if (!tcp_is_cwnd_limited(sk) || tcp_snd_cwnd(tp) >= 60)"),
        ("the compare with a threshold is flipped", "mtsi/mtsi_increase.h",
         "growth->cwnd >= rule->thr[zone]", "growth->cwnd < rule->thr[zone]"),
        ("a loss leaves three quarters", "mtsi/tcp_mtsi.c",
         "static struct tcp_congestion_ops tcp_mtsi __read_mostly = {\n\t.init\t\t= mtsi_init,"
         "\n\t.ssthresh\t= tcp_reno_ssthresh,",
         "static u32 three(struct sock *sk) { return max(tcp_snd_cwnd(tcp_sk(sk)) / 4 * 3, 2U); }\n"
         "static struct tcp_congestion_ops tcp_mtsi __read_mostly = {\n\t.init = mtsi_init, "
         ".ssthresh = three,"),
        ("the count of avoidance is raised on a change of state", "mtsi/tcp_mtsi.c",
         "if (new_state == TCP_CA_Loss)",
         "tcp_sk(sk)->snd_cwnd_cnt++;\n\tif (new_state == TCP_CA_Loss)"),
        ("the flow is said to be limited by cwnd", "mtsi/tcp_mtsi.c",
         "if (!tcp_is_cwnd_limited(sk))\n\t\treturn;", "tp->is_cwnd_limited = 1;"),
    ],
    "ibk": [
        ("acked counts as 1", "ibk/tcp_ibk.c",
         "satcc_param(k), acked, satcc_counted", "satcc_param(k), 1, satcc_counted"),
        ("no bound", "modules/credit.h",
         "if (gain > (u64)cwnd << shift) {", "if (shift == 20 && gain > (u64)cwnd << shift) {"),
        ("credit outlives a loss", "ibk/tcp_ibk.c",
         "if (new_state > TCP_CA_Disorder)", "if (new_state > TCP_CA_Loss)"),
        ("credit outlives idle", "ibk/tcp_ibk.c",
         "if (event == CA_EVENT_CWND_RESTART)", "if (event == CA_EVENT_LOSS)"),
        ("K is one more", "ibk/tcp_ibk.c",
         "satcc_param(k), acked, satcc_counted", "satcc_param(k) + 1, acked, satcc_counted"),
        ("acked counts twice", "ibk/tcp_ibk.c",
         "satcc_param(k), acked, satcc_counted", "satcc_param(k), 2 * acked, satcc_counted"),
        ("an undo returns half", "ibk/tcp_ibk.c",
         "static struct tcp_congestion_ops tcp_ibk __read_mostly = {\n\t.init\t\t= ibk_init,"
         "\n\t.ssthresh\t= tcp_reno_ssthresh,\n\t.undo_cwnd\t= tcp_reno_undo_cwnd,",
         "static u32 half(struct sock *sk) { return max(tcp_reno_undo_cwnd(sk) / 2, 2U); }\n"
         "static struct tcp_congestion_ops tcp_ibk __read_mostly = {\n\t.init = ibk_init, "
         ".ssthresh = tcp_reno_ssthresh, .undo_cwnd = half,"),
        ("cwnd grows where the credit is dropped", "ibk/tcp_ibk.c",
         "if (new_state > TCP_CA_Disorder)",
         "if (new_state == TCP_CA_Disorder)"
         "\n\t\ttcp_snd_cwnd_set(tcp_sk(sk), tcp_snd_cwnd(tcp_sk(sk)) + 1);"
         "\n\tif (new_state > TCP_CA_Disorder)"),
    ],
    "constant_rate": [
        ("acked counts as 1", "constant_rate/tcp_constant_rate.c",
         "a_q20, acked, satcc_counted", "a_q20, 1, satcc_counted"),
        ("c rtt", "constant_rate/constant_rate.h",
         "c * rtt * rtt;", "c * rtt * 1000000;"),
        ("credit outlives a loss", "constant_rate/tcp_constant_rate.c",
         "if (new_state > TCP_CA_Disorder)", "if (new_state > TCP_CA_Loss)"),
        ("the remainder is dropped, as in ns-2", "constant_rate/tcp_constant_rate.c",
         "a_q20, acked, satcc_counted(tp, acked)));",
         "a_q20, acked, satcc_counted(tp, acked)));\n\tca->credit_q20 = 0;"),
        ("the minimum RTT for the smoothed", "constant_rate/tcp_constant_rate.c",
         "a_q20 = constant_rate_a_q20(satcc_param(c), satcc_srtt_us(tp));",
         "a_q20 = constant_rate_a_q20(satcc_param(c), satcc_min_rtt_us(tp));"),
        ("the window doubles when Recovery ends", "constant_rate/tcp_constant_rate.c",
         "if (new_state > TCP_CA_Disorder)",
         "if (new_state == TCP_CA_Open && inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery)"
         "\n\t\ttcp_sk(sk)->snd_ssthresh *= 2;\n\tif (new_state > TCP_CA_Disorder)"),
        ("the window doubles once Recovery is over", "constant_rate/tcp_constant_rate.c",
         "if (event == CA_EVENT_CWND_RESTART)",
         "if (event == CA_EVENT_COMPLETE_CWR)"
         "\n\t\ttcp_snd_cwnd_set(tcp_sk(sk), 2 * tcp_snd_cwnd(tcp_sk(sk)));"
         "\n\tif (event == CA_EVENT_CWND_RESTART)"),
        ("ssthresh grows with the window", "constant_rate/tcp_constant_rate.c",
         "WRITE_ONCE(ca->a_pkts, constant_rate_a_pkts(a_q20));",
         "WRITE_ONCE(ca->a_pkts, constant_rate_a_pkts(a_q20));\n\ttp->snd_ssthresh = "
         "max(tp->snd_ssthresh, tcp_snd_cwnd(tp));"),
    ],
    "westwood_abse": [
        ("acked counts as 1", "westwood_abse/tcp_westwood_abse.c",
         "westwood_grow(sk, acked);", "westwood_grow(sk, 1);"),
        ("RE is not part of b", "westwood_abse/tcp_westwood_abse.c",
         "max(ca->est.bse_q8, ca->est.re_q8) : 0", "ca->est.bse_q8 : 0"),
        ("a mark leaves the window", "westwood_abse/tcp_westwood_abse.c",
         "tp->snd_ssthresh = min(tp->snd_ssthresh, westwood_part(tp->prior_cwnd));", "(void)tp;"),
        ("RTT_min outlives a timeout", "westwood_abse/tcp_westwood_abse.c", "ca->rearm = true;", ""),
        ("BSE is rounded down", "westwood_abse/abse.h",
         "ABSE_ALPHA_ONE / 2) >> ABSE_ALPHA_SHIFT", "0) >> ABSE_ALPHA_SHIFT"),
        ("it grows though cwnd is not the limit", "westwood_abse/tcp_westwood_abse.c",
         "\tif (!tcp_is_cwnd_limited(sk))\n\t\treturn;\n", ""),
        ("an undo returns half", "westwood_abse/tcp_westwood_abse.c",
         "return tcp_reno_undo_cwnd(sk);", "return max(tcp_reno_undo_cwnd(sk) / 2, 2U);"),
        ("a window stands on four times its flight", "westwood_abse/tcp_westwood_abse.c",
         "(u64)limit, 2 * ((u64)flight + acked)", "(u64)limit, 4 * ((u64)flight + acked)"),
        ("it is paced as in slow start up to ssthresh", "westwood_abse/tcp_westwood_abse.c",
         "limit /= 2;", "limit -= 0;"),
        ("the last RTT of a round trip is its smallest", "westwood_abse/tcp_westwood_abse.c",
         "!ca->round_rtt_us || rtt_us < ca->round_rtt_us", "rtt_us"),
        ("a timeout in recovery is none", "westwood_abse/tcp_westwood_abse.c",
         "satcc_is_timeout(sk, ca->reduced)", "(ca->reduced || old_state == TCP_CA_Loss)"),
    ],
    "satcc": [
        ("a queue shows at an eighth", "modules/tcp_satcc.c",
         "#define SATCC_QUEUE_DIV\t\t16", "#define SATCC_QUEUE_DIV\t\t8"),
        ("congestion leaves 80 %", "modules/tcp_satcc.c",
         "#define SATCC_CUT_PCT\t\t70", "#define SATCC_CUT_PCT\t\t80"),
        ("RTT_min is of one sample", "modules/tcp_satcc.c",
         "larger_us = max_t(u32, rtt_us, ca->rtt_us);", "larger_us = rtt_us;"),
        ("a mark is not seen", "modules/tcp_satcc.c",
         "ca->ece = !!(flags & CA_ACK_ECE);", "ca->ece = flags & CA_ACK_ECE;"),
        ("an undo leaves W", "modules/tcp_satcc.c",
         "satcc_set_w(ca, max(ca->w, ca->epoch.prior_w));", ""),
        ("W is cut in every round trip with a queue", "modules/tcp_satcc.c",
         "ca->trimmed = !ca->trimmed;", "ca->trimmed = false;"),
        ("it grows though W was not filled", "modules/tcp_satcc.c",
         "if (!acked || rs->prior_in_flight + SATCC_SLACK + ca->w / 8 < ca->w)", "if (!acked)"),
        ("the flight does not shrink", "modules/tcp_satcc.c",
         "cwnd = flight + max_t(u32, credit / 8, rs->losses > 0);",
         "cwnd = flight + rs->acked_sacked;"),
        ("the train's window is of the last RTT", "modules/tcp_satcc.c",
         "SATCC_HOE_MIN_POINTS, ca->min_rtt_us);", "SATCC_HOE_MIN_POINTS, ca->rtt_us);"),
        ("a loss in a queue is the air's", "modules/tcp_satcc.c",
         "if (!ca->p_q16 || satcc_is_excess(ca))\n\t\treturn false;\n\n"
         "\treturn (u64)lost << 8 <= 2 * (mean_q8 + int_sqrt64(mean_q8 << 8));",
         "return lost && mean_q8 + 1;"),
        ("CUBIC's growth after a loss has no bound", "modules/tcp_satcc.c",
         "step = min(step, satcc_probe_step(ca, n));", ";"),
        ("a timeout's jump waits for a third round trip", "modules/tcp_satcc.c",
         "#define SATCC_JUMP_ROUNDS\t2", "#define SATCC_JUMP_ROUNDS\t3"),
        ("a queue that grows in HOLD is not seen", "modules/tcp_satcc.c",
         "ca->queue_rounds > SATCC_SETTLED_ROUND &&", "ca->queue_rounds > SATCC_BUSY_ROUNDS &&"),
        ("the drops of a queue leave the flow alone", "modules/tcp_satcc.c",
         "queue && satcc_is_delivered(ca))", "satcc_is_quiet(ca))"),
        ("a longer path is not seen in SHARED", "modules/tcp_satcc.c",
         "#define SATCC_STEADY_W\t\t32", "#define SATCC_STEADY_W\t\t32000"),
        ("a long recovery has one cut", "modules/tcp_satcc.c",
         "#define SATCC_RECUT_WINDOWS\t2", "#define SATCC_RECUT_WINDOWS\t20000"),
        ("a cut in slow start leaves what a jump sent", "modules/tcp_satcc.c",
         "return delivered ? min(w, 2 * delivered) : w;", "return w;"),
        ("slow start has one cut in a recovery", "modules/tcp_satcc.c",
         "(!ca->p_q16 && !ca->ramp && passed", "(!ca->p_q16 && passed"),
        ("START of a limited flow ignores losses", "modules/tcp_satcc.c",
         "(tp->app_limited && !quiet))", "false)"),
        ("a mark cuts for the window of a loss", "modules/tcp_satcc.c",
         "TCP_CA_CWR &&\n\t    !satcc_has_cut_acked(sk, ca))", "TCP_CA_CWR)"),
        ("a cut that p explains answers a mark", "modules/tcp_satcc.c",
         "satcc_reacted(sk, ca);\n\t\tca->cut = false;", "satcc_reacted(sk, ca);"),
        ("each pause takes a quarter of W", "modules/tcp_satcc.c",
         "ca->ramp ? ca->w : ca->w - ca->w / 4", "ca->w - ca->w / 4"),
        ("slow start after idleness grows an unused cwnd", "modules/tcp_satcc.c",
         "if (state > TCP_CA_Disorder || tcp_is_cwnd_limited(sk))", "if (ca->ramp)"),
        ("any rate of loss is random", "modules/tcp_satcc.c",
         "ca->excess = min_t(u32, ca->excess + 1, SATCC_EXCESS_MAX);", "ca->excess = 0;"),
        ("a burst is too much loss", "modules/tcp_satcc.c",
         "return segments && segments >= min(ca->w, SATCC_EXCESS_MAX * SATCC_P_SEGMENTS);",
         "return segments;"),
        ("a first queue ends START", "modules/tcp_satcc.c",
         "ca->queue_rounds = SATCC_DOUBT_WAIT;", "ca->flat_rounds = SATCC_FLAT_ROUNDS;"),
        ("in doubt W doubles", "modules/tcp_satcc.c",
         "(acked + 1 - tp->delivered % 2) / 2", "acked"),
        ("a short train is the last", "modules/tcp_satcc.c",
         "over)\n\t\tca->train = SATCC_TRAIN_WAIT;",
         "over)\n\t\tsatcc_end_train(sk, ca);"),
        ("an ACK of the next flight is a point of the train", "modules/tcp_satcc.c",
         "later = after(tp->delivered, ca->train_end)", "later = false"),
        ("an ACK of nothing is a point of the train", "modules/tcp_satcc.c",
         "if (!rs->acked_sacked)\n\t\treturn;\n\tif (ca->train == SATCC_TRAIN_WAIT)",
         "if (ca->train == SATCC_TRAIN_WAIT)"),
        ("the next train begins after its first ACK", "modules/tcp_satcc.c",
         "later && t_us >= SATCC_HOE_MIN_SPAN_US && tcp_is_cwnd_limited(sk)", "false"),
        ("a part of a flight is a train", "modules/tcp_satcc.c",
         "later ? ca->start.hoe.points < SATCC_HOE_MIN_POINTS :", "later ? false :"),
        ("a lost SYN-ACK is jitter", "modules/tcp_satcc.c",
         "tp->total_retrans && jitter_us", "false && jitter_us"),
        ("a lost SYN hides the jitter", "modules/tcp_satcc.c",
         "jitter_us > USEC_PER_SEC / 2 ?", "jitter_us > 0 ?"),
        ("a timeout in recovery is none", "modules/tcp_satcc.c",
         "if (!satcc_is_timeout(sk, ca->reduced))", "if (!ca->reduced)"),
        ("a mark in slow start cuts W alone", "modules/tcp_satcc.c",
         "if (!ca->ramp || inet_csk(sk)->icsk_ca_state == TCP_CA_Loss)\n\t\treturn ca->w;",
         "return ca->w;"),
        ("slow start is judged by all of W", "modules/tcp_satcc.c",
         "round = max(sent, used), passed", "round = max(sent, ca->w), passed"),
        ("an undo ends slow start", "modules/tcp_satcc.c",
         "ca->ramp = tp->prior_cwnd < w;", "ca->ramp = false;"),
        ("HOLD cuts for the queue of a mark", "modules/tcp_satcc.c",
         "ca->trimmed = ca->mode == SATCC_ALONE;", ";"),
        ("HOLD and a loss cut for one queue", "modules/tcp_satcc.c",
         "if (!ca->trimmed)\n\t\t\tsatcc_trim(ca, satcc_queue_us(ca), 0);",
         "satcc_trim(ca, satcc_queue_us(ca), 0);"),
        ("few segments explain no loss below thr", "modules/tcp_satcc.c",
         "if (!queue && (u64)ca->p_q16 * round >= BIT(16))\n\t\tsent = round;", ""),
        ("a rare random loss explains those below thr", "modules/tcp_satcc.c",
         "!queue && (u64)ca->p_q16 * round >= BIT(16)", "!queue"),
        ("a policer takes 30 % of W", "modules/tcp_satcc.c",
         "if (lost > sent / 2 && ", "if (lost > sent && "),
        ("a policer is answered once in a recovery", "modules/tcp_satcc.c",
         "passed == used && before(", "before("),
        ("losses of before the last cut show what passes", "modules/tcp_satcc.c",
         "#define SATCC_PASSED_ROUNDS\t2", "#define SATCC_PASSED_ROUNDS\t0"),
        ("few losses tell a policer", "modules/tcp_satcc.c",
         "lost <= min(used, SATCC_P_SEGMENTS) / 2 ||\n\t    ", ""),
        ("a policer passes less than was delivered", "modules/tcp_satcc.c",
         "return max(used - (u32)div_u64((u64)used * lost, sent), delivered);",
         "return used - (u32)div_u64((u64)used * lost, sent);"),
        ("an outage is a rate", "modules/tcp_satcc.c",
         " ||\n\t    delivered >= min(used, tp->packets_out) / 2)", ")"),
        ("an outage of a limited flow is a rate", "modules/tcp_satcc.c",
         "delivered >= min(used, tp->packets_out) / 2)", "delivered >= used / 2)"),
        ("a timeout brings PROBE back though nothing is tolerated", "modules/tcp_satcc.c",
         "if (satcc_param(tolerate_pct) && ca->min_rtt_us && !", "if (ca->min_rtt_us && !"),
        ("no tolerance has a PROBE", "modules/tcp_satcc.c",
         "(n <= SATCC_WAIT_ROUNDS || !satcc_param(tolerate_pct))", "n <= SATCC_WAIT_ROUNDS"),
        ("a burst is judged by the segments before it", "modules/tcp_satcc.c",
         "(u64)round * 2 * satcc_param", "(u64)sent * 2 * satcc_param"),
        ("W grows at each ACK", "modules/tcp_satcc.c",
         "#define SATCC_EARN_SEGMENTS\t16", "#define SATCC_EARN_SEGMENTS\t1"),
        ("HOLD leaves two segments", "modules/tcp_satcc.c", "min_t(u32, ca->w, SATCC_W_HOLD)", "0"),
        ("it is paced among others", "modules/tcp_satcc.c",
         "satcc_pacing_disable(sk);", "satcc_pacing_enable(sk);"),
        ("slow start among others is not paced", "modules/tcp_satcc.c",
         "SATCC_SHARED && !ca->ramp && ca->w >=", "SATCC_SHARED && ca->w >="),
        ("slow start has a cut at each loss though nothing is tolerated", "modules/tcp_satcc.c",
         "(tolerates || ca->epoch.w_max)", "tolerates"),
        ("the ACK that begins a round trip has lost nothing", "modules/tcp_satcc.c",
         "ca->round_lost = tp->lost - max(rs->losses, 0);", "ca->round_lost = tp->lost;"),
        ("START waits for a train though segments were lost", "modules/tcp_satcc.c",
         "(ca->train == SATCC_TRAIN_COLLECT || !tp->app_limited)",
         "ca->train == SATCC_TRAIN_COLLECT"),
        ("a queue ends START of a limited flow", "modules/tcp_satcc.c",
         "queue && rs->delivered > 0 && !rs->is_app_limited", "queue"),
        ("a mark in Recovery cuts again after it", "modules/tcp_satcc.c",
         "bool answered = ca->ece && satcc_has_cut_acked(sk, ca);", "bool answered = false;"),
        ("a pause leaves ten segments", "modules/tcp_satcc.c",
         "least = min(cwnd, satcc_initial_window(sk))", "least = min(cwnd, 10U)"),
        ("without SACK a loss cuts twice", "modules/tcp_satcc.c",
         "rs->prior_delivered : tcp_sk(sk)->delivered - 1,",
         "rs->prior_delivered : tcp_sk(sk)->delivered,"),
        ("an ACK of nothing ends START of a limited flow", "modules/tcp_satcc.c",
         "queue && rs->delivered > 0 && !rs->is_app_limited", "queue && !rs->is_app_limited"),
        ("a loss ends the wait of a flow that the application limits", "modules/tcp_satcc.c",
         "(ca->train == SATCC_TRAIN_COLLECT || !tp->app_limited)", "true"),
        ("the ACK of the last byte before a cut is of a new mark", "modules/tcp_satcc.c",
         "satcc_has_cut(ca, tcp_sk(sk)->snd_una - 1);", "satcc_has_cut(ca, tcp_sk(sk)->snd_una);"),
        ("an undone cut has answered a mark", "modules/tcp_satcc.c",
         "satcc_forget_cut(tp, ca);", ";"),
        ("a loss beside an answered mark has no answer", "modules/tcp_satcc.c",
         "else if (new_state == TCP_CA_Recovery)",
         "else if (new_state == TCP_CA_Recovery && !answered)"),
    ],
}


def alone(fault):
    """The link that shows a fault, if the rough run need not show it; else None."""
    local = "tc -n sender qdisc add dev right root tbf rate 5mbit burst 1600 limit 1600"
    outage = [{"at_s": 8 + after_s, "hop": "satellite", "forward": {"delay_ms": 300, **loss}}
              for after_s, loss in ((0, {"loss_pct": 100}), (0.4, {}))]
    reordered = {"seconds": 20, "line": {"reorder_pct": 2}}
    gentle = {"seconds": 20, "modules": {"tcp_hybla_full": {"gentle": 1}}}
    doubtful = {"hop": situations.narrow_return(), "seconds": 9, "modules": {"tcp_satcc": {"hoe": 0}}}

    def slower(rtt_ms, rate_mbit, queue_bdp):
        link = {"rate_mbit": rate_mbit, "queue_bdp": queue_bdp}
        return {"rtt_ms": rtt_ms, **link, "rate_mbit": 10, "seconds": 20,
                "change": [{"at_s": 6, "hop": "gateway", "forward": link}]}

    slow_later = {"rate_mbit": 50, "seconds": 20, "change": situations.slower_after_an_outage()}
    pauses = {"rate_mbit": 10, "seconds": 30, "flow": {"write_bytes": 40_000, "write_ms": 7000}}
    outage_in_recovery = {"rate_mbit": 10, "seconds": 16, "loss_pct": 2, "change": [
        situations.from_then_on(8, loss_pct=100), situations.from_then_on(11)]}

    return {
        ("hybla_full", "a queue shows at a quarter"): gentle,
        ("hybla_full", "it doubles beyond b"): gentle,
        ("westwood_abse", "acked counts as 1"): {"seconds": 30, "loss_pct": 1},
        ("westwood_abse", "a mark leaves the window"):
            {"rate_mbit": 10, "rtt_ms": 100, "seconds": 10, "capture": False, "before": [local]},
        ("westwood_abse", "an undo returns half"): reordered,
        ("westwood_abse", "a window stands on four times its flight"):
            {"seconds": 14, "rate_mbit": 4, "queue_packets": 20, "change": outage},
        ("westwood_abse", "a timeout in recovery is none"): outage_in_recovery,
        # From 400 ms on it is queue_ms that a queue shows at.
        ("satcc", "a queue shows at an eighth"): {"rate_mbit": 10, "rtt_ms": 100, "seconds": 10},
        ("satcc", "a mark is not seen"):
            {"seconds": 20, "loss_pct": 0.5, "line": {"ecn": True}, "sender": ECN, "receiver": ECN},
        ("satcc", "an undo leaves W"): reordered,
        ("satcc", "a loss in a queue is the air's"):
            {"rate_mbit": 10, "rtt_ms": 100, "seconds": 20, "queue_packets": 8},
        ("satcc", "CUBIC's growth after a loss has no bound"):
            {"rate_mbit": 10, "rtt_ms": 100, "seconds": 20, "queue_packets": 8},
        ("satcc", "a queue that grows in HOLD is not seen"): slower(200, 4, 2),
        ("satcc", "the drops of a queue leave the flow alone"): slower(200, 2, 0.5),
        ("satcc", "a longer path is not seen in SHARED"):
            {"seconds": 30, "change": [situations.from_then_on(12, delay_ms=600)]},
        ("satcc", "a long recovery has one cut"): slower(600, 2, 0.5),
        ("satcc", "a cut in slow start leaves what a jump sent"): slow_later,
        ("satcc", "slow start has one cut in a recovery"): slow_later,
        ("satcc", "START of a limited flow ignores losses"): {
            "rate_mbit": 10, "seconds": 14, "modules": {"tcp_satcc": {"hoe": 0}},
            "flow": {"write_bytes": 15_000, "write_ms": 50},
            "change": [{"at_s": 6, "hop": "gateway", "forward": {"rate_mbit": 2, "queue_packets": 20}}]},
        ("satcc", "a mark cuts for the window of a loss"): {
            "hop": situations.losses_and_marks(1, 3), "seconds": 120,
            "modules": {"tcp_satcc": {"tolerate_pct": 0}}, "sender": ECN, "receiver": ECN},
        ("satcc", "a cut that p explains answers a mark"): {
            "hop": situations.losses_and_marks(1, 0.5), "seconds": 60, "sender": ECN, "receiver": ECN},
        ("satcc", "each pause takes a quarter of W"): pauses,
        ("satcc", "slow start after idleness grows an unused cwnd"): pauses,
        ("satcc", "any rate of loss is random"): {"seconds": 20, "loss_pct": 15},
        # When W is above the 256 segments that count alone in a shorter round trip.
        ("satcc", "a burst is too much loss"):
            {"rate_mbit": 10, "seconds": 12, "change": [situations.from_then_on(5, loss_pct=15)]},
        ("satcc", "a first queue ends START"): doubtful,
        ("satcc", "in doubt W doubles"): doubtful,
        ("satcc", "a short train is the last"): {"rate_mbit": 250, "bytes": 300_000},
        ("satcc", "an ACK of the next flight is a point of the train"): situations.lost_acks(50),
        ("satcc", "an ACK of nothing is a point of the train"): {
            "hop": situations.duplicated_acks(), "seconds": 3},
        ("satcc", "the next train begins after its first ACK"): situations.lost_acks(50),
        ("satcc", "a part of a flight is a train"): situations.lost_acks(85),
        ("satcc", "a lost SYN-ACK is jitter"):
            {"rate_mbit": 10, "seconds": 3, "change": situations.without_the_first_syn_ack()},
        ("satcc", "a lost SYN hides the jitter"): {
            "rate_mbit": 10, "seconds": 3, "loss_pct": 100, "change": [situations.from_then_on(0.5)]},
        ("satcc", "a timeout in recovery is none"): outage_in_recovery,
        ("satcc", "a mark in slow start cuts W alone"): {
            "rate_mbit": 10, "bytes": 3_000_000, "flow": {"pause_ms": 8000}, "loss_pct": 0.01,
            "line": {"ecn": True}, "sender": ECN, "receiver": ECN,
            "change": [situations.from_then_on(6, loss_pct=10, ecn=True)]},
        ("satcc", "slow start is judged by all of W"): situations.lossy_after_a_pause(),
        ("satcc", "a policer takes 30 % of W"): {"seconds": 10, **situations.policed(600)},
        ("satcc", "losses of before the last cut show what passes"):
            {"seconds": 10, **situations.policed(600)},
        ("satcc", "few losses tell a policer"): {"seconds": 10, **situations.policed(600, 3)},
        # A large bucket: round trips deliver more than its rate.
        ("satcc", "a policer passes less than was delivered"):
            {"seconds": 10, **situations.policed(600, 2, 400_000)},
        ("satcc", "a policer is answered once in a recovery"): {
            "seconds": 10, "modules": {"tcp_satcc": {"tolerate_pct": 0}}, **situations.policed(600)},
        ("satcc", "an outage is a rate"): situations.outage_of_a_limited_flow(),
        ("satcc", "an outage of a limited flow is a rate"): situations.outage_of_a_limited_flow(),
        ("satcc", "a timeout brings PROBE back though nothing is tolerated"): {
            **situations.outage_of_a_limited_flow(), "modules": {"tcp_satcc": {"tolerate_pct": 0}},
            "change": [situations.from_then_on(6, loss_pct=100), situations.from_then_on(8)]},
        ("satcc", "no tolerance has a PROBE"): {
            "seconds": 15, "modules": {"tcp_satcc": {"tolerate_pct": 0}}, **situations.policed(40)},
        ("satcc", "HOLD cuts for the queue of a mark"): {
            "rate_mbit": 10, "rtt_ms": 40, "seconds": 20, "loss_pct": 0.3, "line": {"ecn": True},
            "sender": ECN, "receiver": ECN},
        # Slow start without an estimate overshoots; the losses are in the queue that HOLD has cut for.
        ("satcc", "HOLD and a loss cut for one queue"):
            {"rate_mbit": 20, "seconds": 12, "loss_pct": 2, "modules": {"tcp_satcc": {"hoe": 0}}},
        ("satcc", "few segments explain no loss below thr"):
            {"rate_mbit": 10, "rtt_ms": 200, "seconds": 40, "loss_pct": 1},
        ("satcc", "a rare random loss explains those below thr"):
            {"rate_mbit": 10, "rtt_ms": 250, "queue_bdp": 0.05, "seconds": 40, "loss_pct": 0.1},
        ("satcc", "a burst is judged by the segments before it"): {
            "rate_mbit": 10, "seconds": 30, "change": situations.short_fades()},
        ("satcc", "HOLD leaves two segments"):
            {"rate_mbit": 0.573, "rtt_ms": 40, "seconds": 3, "queue_packets": 50},
        ("satcc", "it is paced among others"): slower(200, 2, 0.5),
        # An outage begins while it is among others.
        ("satcc", "slow start among others is not paced"): {**slower(200, 2, 0.5), "change": [
            *slower(200, 2, 0.5)["change"],
            *(situations.from_then_on(at_s, delay_ms=100, loss_pct=loss_pct)
              for at_s, loss_pct in ((9, 100), (10.5, 0)))]},
        ("satcc", "an undo ends slow start"): {
            "rate_mbit": 10, "bytes": 3_000_000, "flow": {"pause_ms": 8000},
            "change": [situations.from_then_on(6, reorder_pct=5)]},
        ("satcc", "slow start has a cut at each loss though nothing is tolerated"): {
            **situations.lossy_after_a_pause(), "modules": {"tcp_satcc": {"tolerate_pct": 0}}},
        ("satcc", "the ACK that begins a round trip has lost nothing"): {
            "rate_mbit": 1, "rtt_ms": 100, "queue_packets": 8, "loss_pct": 1, "seconds": 30},
        ("satcc", "START waits for a train though segments were lost"):
            situations.limited_by_the_receiver(),
        ("satcc", "a queue ends START of a limited flow"): situations.limited_on_a_longer_path(),
        ("satcc", "a mark in Recovery cuts again after it"): {
            "hop": situations.losses_and_marks(3, 3), "seconds": 40, "sender": ECN, "receiver": ECN},
        ("satcc", "a pause leaves ten segments"): {
            "rate_mbit": 10, "bytes": 2_000_000, **situations.restart_from_32()},
        ("satcc", "without SACK a loss cuts twice"): {
            **situations.without_sack_after_a_pause(), "modules": {"tcp_satcc": {"tolerate_pct": 0}}},
        ("satcc", "an ACK of nothing ends START of a limited flow"):
            situations.limited_on_a_longer_path(),
        ("satcc", "a loss ends the wait of a flow that the application limits"):
            situations.lossy_requests(),
        ("satcc", "the ACK of the last byte before a cut is of a new mark"): {
            "hop": situations.losses_and_marks(3, 3), "seconds": 40, "sender": ECN, "receiver": ECN},
        ("satcc", "an undone cut has answered a mark"): situations.late_and_then_marked(),
        ("satcc", "a loss beside an answered mark has no answer"): {
            "hop": situations.losses_and_marks(5, 5), "seconds": 40, "sender": ECN, "receiver": ECN,
            "modules": {"tcp_satcc": {"tolerate_pct": 0}}},
        ("ibk", "an undo returns half"): reordered,
        ("ibk", "no bound"): {"seconds": 30, "loss_pct": 2, "modules": {"tcp_ibk": {"k": 255}}},
        ("ibk", "credit outlives idle"):
            {"bytes": 1_500_000, "loss_pct": 1, "flow": {"pause_ms": 10_000}},
        # Another policy's fault of the same round may take the link from it.
        ("mtsi", "the compare with a threshold is flipped"): {"bytes": 300_000},
        ("mtsi", "growth stops at 60 segments"): {"bytes": 1_000_000},
        ("mtsi", "the flow is said to be limited by cwnd"):
            {"bytes": 60_000, "flow": {"write_bytes": 1000, "write_ms": 200}},
    }.get(fault)


OTHER_LINKS = ({"seconds": 40, "loss_pct": 1}, {"seconds": 20, "line": {"reorder_pct": 2}},
               {"bytes": 1_500_000, "loss_pct": 0.3, "flow": {"pause_ms": 10_000}})


class FaultyModules:
    """Our modules for the lab's kernel: the first build() builds all, later ones what they change."""

    def __init__(self, release: str, folder):
        self.headers, self.folder = packages.headers(release), folder
        image.copy_module_sources(folder)
        self.texts = {}             # what the last round has replaced

    def build(self, faults: dict[str, tuple]) -> dict[str, bytes]:
        """Policy -> (what, file, text, text instead) to file name -> module."""
        texts = {}
        for policy, (_, name, text, instead) in faults.items():
            source = texts.get(name) or (TOP / name).read_text()
            assert source.count(text) == 1, (policy, name, text, source.count(text))
            texts[name] = source.replace(text, instead)
        for name, text in {**self.texts, **texts}.items():
            (self.folder / name).write_text(text)
        self.texts = {name: (TOP / name).read_text() for name in texts}
        image.kbuild("module build", self.headers, self.folder)
        built = {path.name: path for path in self.folder.glob("*/tcp_*.ko")}
        return {f"tcp_{policy}.ko": image.stripped(built[f"tcp_{policy}.ko"]) for policy in faults}


@pytest.fixture(scope="module")
def faulty_lab():
    """The lab without an oracle that ends a test at the first difference."""
    return Lab(KERNEL)


@pytest.fixture(scope="module")
def faulty_modules(faulty_lab, tmp_path_factory):
    return FaultyModules(faulty_lab.image.release, tmp_path_factory.mktemp("modules"))


def links(geo, policy, what):
    """The scenarios that may show a fault: its own if it has one, the rough run, and then others.

    What is lost by chance changes with any change of any module.  So a run may miss a fault that it has
    shown before, and its own scenario is played with three seeds.
    """
    if link := alone((policy, what)):
        yield from (geo(policy, seed=seed, **link) for seed in range(1, 4))
    yield rough(geo)
    for link in OTHER_LINKS:
        yield geo(policy, **link)


SHORT_ROUNDS = 1            # the others with LONG=1


@pytest.mark.parametrize("n", [
    n if n < SHORT_ROUNDS else long(n)
    for n in range(max(map(len, MUTANTS.values())))])
def test_each_fault_is_found(faulty_lab, faulty_modules, geo, n):
    """The modules have the n-th fault of every policy; the oracle finds each in its policy's flow."""
    faults = {policy: mutants[n] for policy, mutants in MUTANTS.items() if n < len(mutants)}
    modules = faulty_modules.build(faults)
    load = [f"cp {name} /lib/modules/{faulty_lab.image.release}/updates/" for name in modules]
    missed = []
    for policy, (what, *_) in faults.items():
        for link in links(geo, policy, what):
            report = oracle.check(faulty_lab.run(link, modules, first=load))
            if differences := [each for each in report.differences if each.policy == policy]:
                print(f"{policy}: {what}: {str(differences[0]).splitlines()[0]}")
                break
        else:
            missed.append(f"{policy}: {what}")
    assert not missed
