/* SPDX-License-Identifier: GPL-2.0 */
/* The kernels we build for differ here, and nowhere else.
 *
 * The SATCC_HAVE_ flags come from Kbuild, which looks for the thing itself in
 * the headers it compiles against: stable and vendor kernels backport, so a
 * version says little. SATCC_KERNEL, from there too, is 5010 for 5.10.
 */
#ifndef _SATCC_COMPAT_H
#define _SATCC_COMPAT_H

#include <linux/moduleparam.h>
#include <net/tcp.h>

#if SATCC_KERNEL < 5010
#error "satcc needs Linux 5.10 or later"
#endif

/* In 5.19: 40570375356c ("tcp: add accessors to read/set tp->snd_cwnd"). Goes
 * with 5.10 and 5.15.
 */
#ifndef SATCC_HAVE_SND_CWND
static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 val)
{
	WARN_ON_ONCE((int)val <= 0);
	tp->snd_cwnd = val;
}
#endif

/* In 5.14: 2a14c9ae15a3 ("params: lift param_set_uint_minmax to common code"). Goes
 * with 5.10.
 */
#ifndef SATCC_HAVE_PARAM_MINMAX
static inline int param_set_uint_minmax(const char *val,
					const struct kernel_param *kp,
					unsigned int min, unsigned int max)
{
	unsigned int value;
	int err;

	err = kstrtouint(val, 0, &value);
	if (err)
		return err;
	if (value < min || value > max)
		return -EINVAL;
	WRITE_ONCE(*(unsigned int *)kp->arg, value);

	return 0;
}
#endif

/* Kernels with BBRv3 patched in replace ->min_tso_segs() by ->tso_segs(), which
 * returns the whole burst size instead of its lower bound. There the bound stays
 * what net.ipv4.tcp_min_tso_segs says. Among the initializers of the ops, without
 * a comma; fn is to be __maybe_unused.
 */
#ifdef SATCC_HAVE_MIN_TSO_SEGS
#define SATCC_MIN_TSO_SEGS(fn)	.min_tso_segs = (fn),
#else
#define SATCC_MIN_TSO_SEGS(fn)
#endif

/* In 7.1: d1e59a469737, CA_EVENT_TX_START has its own member and is no longer passed
 * to ->cwnd_event(). fn is as that; likewise.
 */
#ifdef SATCC_HAVE_CWND_EVENT_TX_START
#define SATCC_TX_START(fn)	.cwnd_event_tx_start = (fn),
#else
#define SATCC_TX_START(fn)
#endif

/* In 6.10: 57bfc7605ca5 ("tcp: Add new args for cong_control in tcp_congestion_ops"):
 * void name(struct sock *sk, SATCC_ACK_FLAG const struct rate_sample *rs). They are not
 * for us, the flags being private to the core.
 */
#ifdef SATCC_HAVE_CONG_CONTROL_FLAG
#define SATCC_ACK_FLAG	u32 ack, int flag,
#else
#define SATCC_ACK_FLAG
#endif

/* In 5.11: d19ad0775dcd ("ftrace: Have the callbacks receive a struct ftrace_regs
 * instead of pt_regs"). With FTRACE_OPS_FL_SAVE_REGS the registers are all there.
 */
#if SATCC_KERNEL < 5011
#define satcc_ftrace_regs		struct pt_regs
#define satcc_ftrace_get_regs(fregs)	(fregs)
#else
#define satcc_ftrace_regs		struct ftrace_regs
#define satcc_ftrace_get_regs(fregs)	ftrace_get_regs(fregs)
#endif

/* In 5.11: d741bf41d7c7 ("kprobes: Remove kretprobe hash"). */
#if SATCC_KERNEL < 5011
#define satcc_kretprobe(ri)	((ri)->rp)
#else
#define satcc_kretprobe(ri)	get_kretprobe(ri)
#endif

/* In 6.10 (57bfc7605ca5 "tcp: Add new args for cong_control in tcp_congestion_ops"):
 * cong_control(sk, rs) has become cong_control(sk, ack, flag, rs). Numbers of arguments;
 * 0, the socket's, is for one that is not there.
 */
#ifdef SATCC_HAVE_CONG_CONTROL_FLAG
#define SATCC_CONG_CONTROL_FLAG	2
#define SATCC_CONG_CONTROL_RS	3
#else
#define SATCC_CONG_CONTROL_FLAG	0
#define SATCC_CONG_CONTROL_RS	1
#endif

#endif /* _SATCC_COMPAT_H */
