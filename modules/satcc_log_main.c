// SPDX-License-Identifier: GPL-2.0
/* satcc_log: what TCP does, as trace events
 *
 * Multi-TCP's three logs (Caini et al. 2008, 4.1), which took a patched kernel, for
 * the kernel as it is and for every congestion control: each segment handed to IP,
 * each ACK, each change of the window with what changed it. satcc_log_trace.h has the
 * fields; tools/satcc-log records them. A fourth event, each call of a congestion
 * control, is in satcc_log_call.c; what the hooks know of sockets is kept by
 * satcc_log_flow.c, and satcc_log_hook.c puts hooks in and takes them out.
 *
 *   modprobe satcc_log
 *   cd /sys/kernel/tracing
 *   echo 'dport == 443 && daddr4 >= 0xc6336400 && daddr4 <= 0xc63364ff' >
 *	events/satcc/cwnd_changed/filter
 *   echo 1 > events/satcc/cwnd_changed/enable
 *   cat trace_pipe
 *
 * The kernel has no tracepoints for this. An event that is enabled puts hooks into the
 * functions it needs: on entry by ftrace, which loses none; on return by a kretprobe,
 * which is missed if an interrupt falls into the few instructions of another. What was
 * missed is counted in the parameter `lost`. While no event is enabled there are no
 * hooks. Enabling fails, and the kernel log says why, if a function is not there to be
 * hooked: another version's, or made part of its caller by the compiler.
 *
 * All hooks are called with the socket's lock held, or what stands for it in softirq.
 *
 * No change goes unseen: the window last seen is kept for each socket, and compared at
 * every hook. What is found at a hook that does not change the window itself was
 * changed since the hook before it, by what was under way then: flow->cause.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "satcc_log.h"

#define CREATE_TRACE_POINTS
#include "satcc_log_trace.h"

static struct satcc_log_window satcc_log_window(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (struct satcc_log_window){
		.cwnd = tcp_snd_cwnd(tp),
		.ssthresh = tp->snd_ssthresh,
		.clamp = tp->snd_cwnd_clamp,
	};
}

/* The flow of a socket that has, or had, a connection; NULL if there is none, or no
 * room for it, or cwnd_changed is off.
 */
static struct satcc_log_flow *satcc_log_flow(struct sock *sk)
{
	struct satcc_log_flow *flow;
	u64 cookie;

	if (!trace_cwnd_changed_enabled())
		return NULL;

	cookie = atomic64_read(&sk->sk_cookie);
	flow = satcc_log_flow_find(sk);
	if (flow && flow->cookie == cookie)
		return flow;
	if (sk->sk_state == TCP_CLOSE || sk->sk_state == TCP_LISTEN)
		return NULL;

	/* A new one, or a new socket in an old one's place. */
	if (!flow)
		flow = satcc_log_flow_add(sk);
	if (!flow)
		return NULL;

	flow->cookie = satcc_log_cookie(sk);
	flow->window = satcc_log_window(sk);
	flow->cause = SATCC_LOG_OTHER;
	flow->acking = false;
	trace_cwnd_changed(sk, &flow->window, &flow->window, SATCC_LOG_FIRST);

	return flow;
}

/* Is a change that no hook was around for the core's tcp_cwnd_application_limited()?
 * That is part of its callers, but does what nothing else does: forgets what was used
 * of the window, goes down to halfway to that, and has ssthresh at 3/4 at least. An MTU
 * probe under way takes one segment from the window and may look the same.
 */
static bool satcc_log_is_app_limited(const struct sock *sk,
				     const struct satcc_log_window *old,
				     const struct satcc_log_window *window)
{
	return !tcp_sk(sk)->snd_cwnd_used && !inet_csk(sk)->icsk_mtup.probe_size &&
	       window->cwnd < old->cwnd && window->cwnd >= old->cwnd / 2 &&
	       window->ssthresh == max(old->ssthresh, (old->cwnd >> 1) + (old->cwnd >> 2));
}

/* Report what has changed since the last look, if anything. */
static void satcc_log_look(struct sock *sk, struct satcc_log_flow *flow, u8 reason)
{
	struct satcc_log_window window = satcc_log_window(sk);

	if (!memcmp(&window, &flow->window, sizeof(window)))
		return;

	if (reason == SATCC_LOG_OTHER &&
	    satcc_log_is_app_limited(sk, &flow->window, &window))
		reason = SATCC_LOG_APP_LIMITED;

	trace_cwnd_changed(sk, &flow->window, &window, reason);
	flow->window = window;
}

/* -- Hooks on entry ----------------------------------------------------------- */

/* One record for each segment that a packet will be cut into, as it will be. */
static void satcc_log_segments(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct tcphdr *th = tcp_hdr(skb);
	u32 left = skb->len - th->doff * 4;
	u32 size = skb_shinfo(skb)->gso_size ?: left;
	u8 flags = ((const u8 *)th)[13];
	struct satcc_log_segment seg = {
		.wstamp_ns = ktime_to_ns(skb->tstamp),
		.seq = ntohl(th->seq),
		.segs = max_t(u32, skb_shinfo(skb)->gso_segs, 1),
	};

	seg.retrans = (left || th->syn || th->fin) && before(seg.seq, tp->snd_nxt);
	do {
		seg.len = min(left, size);
		left -= seg.len;
		seg.flags = left ? flags & ~(TCPHDR_FIN | TCPHDR_PSH) : flags;
		seg.sent_orig = tp->bytes_sent - tp->bytes_retrans -
				(seg.retrans ? 0 : left);
		trace_segment_sent(sk, &seg);
		seg.seq += seg.len;
		flags &= ~TCPHDR_CWR;
	} while (left);
}

/* ip_queue_xmit(sk, skb, ...), inet6_csk_xmit(sk, skb, ...): the header is written, and
 * what tp counts has been counted, but snd_nxt is yet to move over new data.
 */
static void satcc_log_sent(struct sock *sk, struct pt_regs *regs)
{
	struct satcc_log_flow *flow;

	if (!sk_fullsock(sk) || sk->sk_protocol != IPPROTO_TCP ||
	    sk->sk_type != SOCK_STREAM)
		return;

	flow = satcc_log_flow(sk);
	if (flow)
		satcc_log_look(sk, flow, flow->cause);
	if (trace_segment_sent_enabled())
		satcc_log_segments(sk, (void *)regs_get_kernel_argument(regs, 1));
}

/* tcp_set_ca_state(sk, state): on an ACK a reduction begins or ends, which is no
 * function of its own. CWR begins and ends before the call, Recovery ends after it:
 * until satcc_log_rate().
 */
static void satcc_log_state(struct sock *sk, struct pt_regs *regs)
{
	u8 state = regs_get_kernel_argument(regs, 1);
	u8 state_old = inet_csk(sk)->icsk_ca_state;
	struct satcc_log_flow *flow = satcc_log_flow(sk);

	if (!flow)
		return;

	if (flow->cause != SATCC_LOG_ACK) {
		satcc_log_look(sk, flow, flow->cause);
	} else if (state == TCP_CA_CWR || state_old == TCP_CA_CWR) {
		satcc_log_look(sk, flow, SATCC_LOG_CWR);
	} else {
		satcc_log_look(sk, flow, SATCC_LOG_ACK);
		if (state_old == TCP_CA_Recovery)
			flow->cause = SATCC_LOG_RECOVERY;
	}
}

/* tcp_rate_gen(sk, ...): after the end of Recovery, before growth. */
static void satcc_log_rate(struct sock *sk, struct pt_regs *regs)
{
	struct satcc_log_flow *flow = satcc_log_flow(sk);

	if (!flow)
		return;

	satcc_log_look(sk, flow, flow->cause);
	if (flow->acking && flow->cause == SATCC_LOG_RECOVERY)
		flow->cause = SATCC_LOG_ACK;
}

/* tcp_v4_destroy_sock(sk), of IPv6 too. */
static void satcc_log_destroy(struct sock *sk, struct pt_regs *regs)
{
	struct satcc_log_flow *flow = satcc_log_flow_find(sk);

	if (!flow)
		return;

	if (flow->cookie == atomic64_read(&sk->sk_cookie))
		satcc_log_look(sk, flow, SATCC_LOG_OTHER);
	satcc_log_flow_remove(flow);
}

/* -- Hooks on entry and return ------------------------------------------------- */

/* NULL while the hook is being taken out. */
static const struct satcc_log_pair *satcc_log_pair(struct kretprobe_instance *ri)
{
	struct kretprobe *probe = satcc_kretprobe(ri);

	return probe ? container_of(probe, struct satcc_log_pair, probe) : NULL;
}

/* Proportional rate reduction is of CWR and Recovery alike. */
static u8 satcc_log_cause(const struct sock *sk, const struct satcc_log_pair *pair)
{
	if (pair->cause == SATCC_LOG_RECOVERY &&
	    inet_csk(sk)->icsk_ca_state == TCP_CA_CWR)
		return SATCC_LOG_CWR;

	return pair->cause;
}

int satcc_log_enter(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct satcc_log_call *call = (void *)ri->data;
	struct sock *sk = (void *)regs_get_kernel_argument(regs, 0);
	const struct satcc_log_pair *pair;
	struct satcc_log_flow *flow;
	const struct sk_buff *skb;

	call->pair = satcc_log_pair(ri);
	if (!call->pair)
		return 1;	/* the hook is being taken out */

	pair = call->pair;
	flow = satcc_log_flow(sk);
	call->sk = sk;
	call->cause = SATCC_LOG_OTHER;
	if (flow) {
		satcc_log_look(sk, flow, flow->cause);
		call->cause = flow->cause;
		flow->cause = satcc_log_cause(sk, pair);
	}
	if (pair->cause != SATCC_LOG_ACK)
		return 0;

	skb = (void *)regs_get_kernel_argument(regs, 1);
	call->ack = TCP_SKB_CB(skb)->ack_seq;
	call->len = TCP_SKB_CB(skb)->end_seq - TCP_SKB_CB(skb)->seq -
		    tcp_hdr(skb)->syn - tcp_hdr(skb)->fin;
	if (flow)
		flow->acking = true;

	return 0;
}

int satcc_log_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct satcc_log_call *call = (void *)ri->data;
	const struct satcc_log_pair *pair = call->pair;
	struct satcc_log_flow *flow = satcc_log_flow(call->sk);

	if (pair->cause == SATCC_LOG_ACK)
		trace_ack_received(call->sk, call->ack, call->len);
	if (!flow)
		return 0;

	satcc_log_look(call->sk, flow, flow->cause);
	flow->cause = call->cause;
	if (pair->cause == SATCC_LOG_ACK)
		flow->acking = false;

	return 0;
}

/* -- Which event needs which hook --------------------------------------------- */

#define SATCC_LOG_SEGMENT	1
#define SATCC_LOG_ACKS		2
#define SATCC_LOG_WINDOW	4

struct satcc_log_entry satcc_log_entries[SATCC_LOG_ENTRIES + 1] = {
	{ .function = "ip_queue_xmit", .hook = satcc_log_sent,
	  .events = SATCC_LOG_SEGMENT | SATCC_LOG_WINDOW },
#if IS_ENABLED(CONFIG_IPV6)
	{ .function = "inet6_csk_xmit", .hook = satcc_log_sent,
	  .events = SATCC_LOG_SEGMENT | SATCC_LOG_WINDOW },
#endif
	{ .function = "tcp_set_ca_state", .hook = satcc_log_state,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_rate_gen", .hook = satcc_log_rate,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_v4_destroy_sock", .hook = satcc_log_destroy,
	  .events = SATCC_LOG_WINDOW },
	{ }
};

/* The socket is the first argument of each. */
struct satcc_log_pair satcc_log_pairs[SATCC_LOG_PAIRS + 1] = {
	{ .function = "tcp_ack", .cause = SATCC_LOG_ACK,
	  .events = SATCC_LOG_ACKS | SATCC_LOG_WINDOW },
	{ .function = "tcp_init_transfer", .cause = SATCC_LOG_INIT,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_enter_recovery", .cause = SATCC_LOG_RECOVERY,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_enter_cwr", .cause = SATCC_LOG_CWR,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_enter_loss", .cause = SATCC_LOG_RTO,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_cwnd_reduction", .cause = SATCC_LOG_RECOVERY,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_undo_cwnd_reduction", .cause = SATCC_LOG_UNDO,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_cwnd_restart", .cause = SATCC_LOG_IDLE,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_simple_retransmit", .cause = SATCC_LOG_OTHER,
	  .events = SATCC_LOG_WINDOW },
	{ .function = "tcp_set_congestion_control", .cause = SATCC_LOG_SWITCH,
	  .events = SATCC_LOG_WINDOW },
	{ }
};

/* The events that are on. The kernel calls the functions below one at a time. */
static u8 satcc_log_events;

static int satcc_log_enable(u8 event, const char *name)
{
	int err;

	err = satcc_log_attach(satcc_log_events | event);
	if (err) {
		pr_err("the event %s stays off\n", name);
		satcc_log_attach(satcc_log_events);
		return err;
	}
	satcc_log_events |= event;

	return 0;
}

static void satcc_log_disable(u8 event)
{
	satcc_log_events &= ~event;
	satcc_log_attach(satcc_log_events);
}

int satcc_log_segment_reg(void)
{
	return satcc_log_enable(SATCC_LOG_SEGMENT, "segment_sent");
}

void satcc_log_segment_unreg(void)
{
	satcc_log_disable(SATCC_LOG_SEGMENT);
}

int satcc_log_ack_reg(void)
{
	return satcc_log_enable(SATCC_LOG_ACKS, "ack_received");
}

void satcc_log_ack_unreg(void)
{
	satcc_log_disable(SATCC_LOG_ACKS);
}

int satcc_log_window_reg(void)
{
	int err;

	if (satcc_log_events & SATCC_LOG_WINDOW)	/* 6.1 does not undo what failed later */
		return 0;

	err = satcc_log_flows_alloc();
	if (err)
		return err;

	err = satcc_log_enable(SATCC_LOG_WINDOW, "cwnd_changed");
	if (err)
		satcc_log_flows_free();

	return err;
}

void satcc_log_window_unreg(void)
{
	satcc_log_disable(SATCC_LOG_WINDOW);
	satcc_log_flows_free();
}

static int satcc_log_lost_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%lu\n", satcc_log_flows_lost() + satcc_log_hooks_missed() +
			  satcc_log_call_lost());
}

static const struct kernel_param_ops satcc_log_lost_ops = {
	.get = satcc_log_lost_get,
};

module_param_cb(lost, &satcc_log_lost_ops, NULL, 0444);
MODULE_PARM_DESC(lost, "records that could not be made, since the module was loaded");

static int __init satcc_log_init(void)
{
	return satcc_log_call_init();
}

/* Events that are still on are turned off by the kernel, after this and before the
 * module is gone, and with them the hooks.
 */
static void __exit satcc_log_exit(void)
{
	satcc_log_call_exit();
}

module_init(satcc_log_init);
module_exit(satcc_log_exit);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("Trace events of every TCP segment, ACK and window change");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
MODULE_SOFTDEP("pre: ipv6");
