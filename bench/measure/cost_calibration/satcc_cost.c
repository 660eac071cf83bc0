// SPDX-License-Identifier: GPL-2.0
/* For bench/measure/cost.py, which counts the instructions of a congestion control with the
 * kernel's function graph tracer: which functions to trace, and functions of known
 * length to find out what the tracer itself costs.
 *
 *   insmod satcc_cost.ko cc=NAME
 *   cat /sys/module/satcc_cost/parameters/callbacks	who is who, see below
 *   echo 100 > /sys/module/satcc_cost/parameters/calibrate
 *						call each known function so often
 *   cat /sys/module/satcc_cost/parameters/idle		for bench/measure/overhead.py
 */
#include <linux/module.h>
#include <linux/net.h>
#include <linux/tick.h>
#include <net/tcp.h>

static char *cc = "";
module_param(cc, charp, 0444);
MODULE_PARM_DESC(cc, "name of the congestion control to look into");

/* Its operations; a copy, for the module it is in may go. */
static struct tcp_congestion_ops ops;

/* Nothing, and a thousand instructions more than that. The asm keeps the compiler
 * from dropping the calls.
 */
static noinline void satcc_cost_nothing(void)
{
	asm volatile("");
}

static noinline void satcc_cost_1000_nops(void)
{
	asm volatile(".rept 1000\n\tnop\n\t.endr");
}

static int calibrate_set(const char *val, const struct kernel_param *kp)
{
	unsigned int calls;
	int err;

	err = kstrtouint(val, 0, &calls);
	if (err)
		return err;
	while (calls--) {
		satcc_cost_nothing();
		satcc_cost_1000_nops();
	}

	return 0;
}

static const struct kernel_param_ops calibrate_ops = {
	.set = calibrate_set,
};

module_param_cb(calibrate, &calibrate_ops, NULL, 0200);
MODULE_PARM_DESC(calibrate, "write a number: call each function of known length so often");

/* One line a function: its slot, its address, its name, its module in brackets. */
static int callbacks_get(char *buffer, const struct kernel_param *kp)
{
	const struct {
		const char *slot;
		void *function;
	} all[] = {
		{ "ssthresh", ops.ssthresh },
		{ "cong_avoid", ops.cong_avoid },
		{ "set_state", ops.set_state },
		{ "cwnd_event", ops.cwnd_event },
		{ "in_ack_event", ops.in_ack_event },
		{ "pkts_acked", ops.pkts_acked },
		{ "min_tso_segs", ops.min_tso_segs },
		{ "cong_control", ops.cong_control },
		{ "undo_cwnd", ops.undo_cwnd },
		{ "sndbuf_expand", ops.sndbuf_expand },
		{ "get_info", ops.get_info },
		{ "init", ops.init },
		{ "release", ops.release },
		{ "nothing", satcc_cost_nothing },
		{ "1000_nops", satcc_cost_1000_nops },
	};
	int i, len = 0;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].function)
			len += sysfs_emit_at(buffer, len, "%s %lx %ps\n", all[i].slot,
					     (unsigned long)all[i].function,
					     all[i].function);

	return len;
}

static const struct kernel_param_ops callbacks_ops = {
	.get = callbacks_get,
};

module_param_cb(callbacks, &callbacks_ops, NULL, 0444);
MODULE_PARM_DESC(callbacks, "the functions to trace");

/* Two numbers: the time, ns, and how long of it the processor was idle, us. */
static int idle_get(char *buffer, const struct kernel_param *kp)
{
	u64 idle_us = get_cpu_idle_time_us(0, NULL) + get_cpu_iowait_time_us(0, NULL);

	return sysfs_emit(buffer, "%llu %llu\n", ktime_get_ns(), idle_us);
}

static const struct kernel_param_ops idle_ops = {
	.get = idle_get,
};

module_param_cb(idle, &idle_ops, NULL, 0444);
MODULE_PARM_DESC(idle, "time in ns, idle time of the first processor in us");

/* The kernel tells nobody its table of congestion controls; a socket has its own. */
static int __init satcc_cost_init(void)
{
	struct socket *sock;
	int err;

	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	err = sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR(cc),
				    strlen(cc));
	if (!err)
		ops = *inet_csk(sock->sk)->icsk_ca_ops;
	sock_release(sock);

	return err;
}

static void __exit satcc_cost_exit(void)
{
}

module_init(satcc_cost_init);
module_exit(satcc_cost_exit);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("Calibration of the instruction count of a congestion control");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
