// SPDX-License-Identifier: GPL-2.0
/* satcc_log: TCP's segments, ACKs and window changes as trace events
 *
 * These are the three logs of Multi-TCP (Caini et al. 2008, 4.1), which needed a patched
 * kernel. Here they work with an unpatched kernel and any congestion control: each segment
 * handed to IP, each ACK, each change of the window with its cause. satcc_log_trace.h
 * describes the fields; tools/satcc-log records them. satcc_log_call.c has a fourth event,
 * each call of a congestion control. satcc_log_flow.c keeps the table of sockets, and
 * satcc_log_hook.c installs and removes hooks.
 *
 *   modprobe satcc_log
 *   cd /sys/kernel/tracing
 *   echo 'dport == 443 && daddr4 >= 0xc6336400 && daddr4 <= 0xc63364ff' >
 *	events/satcc/cwnd_changed/filter
 *   echo 1 > events/satcc/cwnd_changed/enable
 *   cat trace_pipe
 *
 * The kernel has no tracepoints for this. An enabled event hooks the functions it needs: on
 * entry by ftrace, which misses no call; on return by a kretprobe, which misses a call if an
 * interrupt comes within the few instructions of another kretprobe. The parameter `lost`
 * counts missed calls. While no event is enabled there are no hooks. Enabling an event
 * fails if a function cannot be hooked, because this kernel does not have it or because the
 * compiler has inlined it. The kernel log then names the function.
 *
 * Every hook runs with the socket locked, in softirq by its spinlock.
 *
 * The logger misses no change: it keeps the last window of each socket and compares it at
 * every hook. If a hook that does not change the window finds a change, this happened since
 * the hook before, and flow->cause has its cause.
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

/* Returns the flow of a socket that has, or had, a connection. Returns NULL if there is no
 * connection, if the table is full, or if cwnd_changed is off.
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

	/* A new socket, perhaps at the address of an old one. */
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

/* Did the core's tcp_cwnd_application_limited() make this change, which no hook has seen? The
 * compiler inlines that function, but no other code has its effects: it clears snd_cwnd_used,
 * lowers cwnd to halfway between cwnd and snd_cwnd_used, and raises ssthresh to at least 3/4
 * of cwnd. An MTU probe in progress takes one segment from cwnd and may look the same.
 */
static bool satcc_log_is_app_limited(const struct sock *sk,
				     const struct satcc_log_window *old,
				     const struct satcc_log_window *window)
{
	return !tcp_sk(sk)->snd_cwnd_used && !inet_csk(sk)->icsk_mtup.probe_size &&
	       window->cwnd < old->cwnd && window->cwnd >= old->cwnd / 2 &&
	       window->ssthresh == max(old->ssthresh, (old->cwnd >> 1) + (old->cwnd >> 2));
}

/* Report a change since the last hook, if there is one. */
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

/* Make one record for each segment that the packet will be cut into. */
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

/* ip_queue_xmit(sk, skb, ...), inet6_csk_xmit(sk, skb, ...): the core has written the header
 * and updated tp's counters, but has not yet moved snd_nxt over new data.
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

/* tcp_set_ca_state(sk, state): on an ACK a reduction begins or ends without a function that
 * could be hooked. CWR begins and ends before this call. Recovery ends between this call and
 * satcc_log_rate().
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

/* tcp_v4_destroy_sock(sk), which the core also calls for IPv6. */
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

/* Returns NULL while the hook is being removed. */
static const struct satcc_log_pair *satcc_log_pair(struct kretprobe_instance *ri)
{
	struct kretprobe *probe = satcc_kretprobe(ri);

	return probe ? container_of(probe, struct satcc_log_pair, probe) : NULL;
}

/* Returns the cause of the hooked function's changes. tcp_cwnd_reduction() runs in CWR and in
 * Recovery.
 */
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
		return 1;	/* the hook is being removed */

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

/* The enabled events. The kernel calls the functions below one at a time. */
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

	if (satcc_log_events & SATCC_LOG_WINDOW)	/* 6.1 may retry after a later failure */
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

/* After this and before the module is freed, the kernel turns off the events that are still
 * on, which removes their hooks.
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
