// SPDX-License-Identifier: GPL-2.0
/* Installs and removes the logger's hooks. Removing an ftrace_ops or a kretprobe waits until
 * every CPU and task has left it. During that time the kernel holds a lock that all of
 * tracefs and the loading of modules need. So all hooks on entry share one ftrace_ops, which
 * finds the hook by address, and all hooks on return are removed in one batch.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/slab.h>

#include "compat.h"
#include "satcc_log.h"

/* ftrace's call is within this many bytes of a function's start, after the instructions
 * that the architecture needs first.
 */
#define SATCC_LOG_PROLOGUE	16

/* Calls missed by hooks that have been removed. */
static unsigned long satcc_log_missed;

/* -- On entry ----------------------------------------------------------------- */

static void satcc_log_entered(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *ops, satcc_ftrace_regs *fregs)
{
	struct pt_regs *regs = satcc_ftrace_get_regs(fregs);
	const struct satcc_log_entry *entry;

	/* satcc_log_flows_free() waits for this section; ftrace itself has none. */
	rcu_read_lock();
	for (entry = satcc_log_entries; entry->function; entry++) {
		if (ip - entry->address < SATCC_LOG_PROLOGUE) {
			entry->hook((void *)regs_get_kernel_argument(regs, 0), regs);
			break;
		}
	}
	rcu_read_unlock();
}

/* PERMANENT makes the kernel refuse to clear the sysctl kernel.ftrace_enabled. That would
 * stop these hooks, and nothing would count the missing records.
 */
static struct ftrace_ops satcc_log_ops = {
	.func	= satcc_log_entered,
	.flags	= FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_PERMANENT,
};

static bool satcc_log_ops_on;

/* Find the addresses of functions. A module can only learn these from a kprobe; this one
 * is never armed.
 */
static int satcc_log_find_entries(u8 events)
{
	struct kprobe *probes[SATCC_LOG_ENTRIES];
	struct satcc_log_entry *entry;
	struct kprobe *room, *probe;
	int err = 0, count = 0;

	room = kcalloc(SATCC_LOG_ENTRIES, sizeof(*room), GFP_KERNEL);
	if (!room)
		return -ENOMEM;

	for (entry = satcc_log_entries; entry->function; entry++) {
		if (entry->address || !(entry->events & events))
			continue;
		probe = &room[count];
		probe->symbol_name = entry->function;
		probe->flags = KPROBE_FLAG_DISABLED;
		err = register_kprobe(probe);
		if (err) {
			pr_err("cannot hook %s: %d\n", entry->function, err);
			break;
		}
		entry->address = (unsigned long)probe->addr;
		probes[count++] = probe;
	}
	if (count)
		unregister_kprobes(probes, count);
	kfree(room);

	return err;
}

/* Set ftrace's filter to the entries that these events need. It must never be empty while
 * the hooks are on, because an empty filter means every function.
 */
static int satcc_log_set_entries(u8 events)
{
	struct satcc_log_entry *entry;
	char name[SATCC_LOG_NAME + 1];
	bool wanted;
	int err;

	/* First add all new entries, then remove the others. */
	for (wanted = true; ; wanted = false) {
		for (entry = satcc_log_entries; entry->function; entry++) {
			if (entry->attached == wanted || !!(entry->events & events) != wanted)
				continue;
			snprintf(name, sizeof(name), "%s%s", wanted ? "" : "!",
				 entry->function);
			err = ftrace_set_filter(&satcc_log_ops, name, strlen(name), 0);
			if (err) {
				pr_err("cannot hook %s: %d\n", entry->function, err);
				return err;
			}
			entry->attached = wanted;
		}
		if (!wanted)
			return 0;
	}
}

static void satcc_log_detach_entries(void)
{
	struct satcc_log_entry *entry;

	if (satcc_log_ops_on)
		unregister_ftrace_function(&satcc_log_ops);
	satcc_log_ops_on = false;
	/* Empty the filter, to free its memory. */
	ftrace_set_filter(&satcc_log_ops, NULL, 0, 1);
	for (entry = satcc_log_entries; entry->function; entry++)
		entry->attached = false;
}

static int satcc_log_attach_entries(u8 events)
{
	struct satcc_log_entry *entry;
	bool any = false;
	int err;

	for (entry = satcc_log_entries; entry->function; entry++)
		any |= !!(entry->events & events);
	if (!any) {
		satcc_log_detach_entries();
		return 0;
	}

	err = satcc_log_find_entries(events);
	if (err)
		return err;
	err = satcc_log_set_entries(events);
	if (err || satcc_log_ops_on)
		return err;

	err = register_ftrace_function(&satcc_log_ops);
	if (err)
		pr_err("cannot hook functions by ftrace: %d\n", err);
	satcc_log_ops_on = !err;

	return err;
}

/* -- On return ---------------------------------------------------------------- */

/* Returns maxactive: one instance for each task that may be interrupted in the function. */
int satcc_log_max_active(void)
{
	return max(64U, 16 * num_possible_cpus());
}

static int satcc_log_attach_pair(struct satcc_log_pair *pair)
{
	int err;

	pair->probe = (struct kretprobe){
		.kp.symbol_name = pair->function,
		.entry_handler = satcc_log_enter,
		.handler = satcc_log_return,
		.data_size = sizeof(struct satcc_log_call),
		.maxactive = satcc_log_max_active(),
	};
	err = register_kretprobe(&pair->probe);
	if (err)
		pr_err("cannot hook %s: %d\n", pair->function, err);
	pair->attached = !err;

	return err;
}

static unsigned long satcc_log_pair_missed(const struct satcc_log_pair *pair)
{
	return READ_ONCE(pair->probe.nmissed) + READ_ONCE(pair->probe.kp.nmissed);
}

static int satcc_log_attach_pairs(u8 events)
{
	struct kretprobe *going[SATCC_LOG_PAIRS];
	struct satcc_log_pair *pair;
	int err, count = 0;

	for (pair = satcc_log_pairs; pair->function; pair++)
		if (pair->attached && !(pair->events & events))
			going[count++] = &pair->probe;
	if (count)
		unregister_kretprobes(going, count);
	for (pair = satcc_log_pairs; pair->function; pair++) {
		if (!pair->attached || (pair->events & events))
			continue;
		satcc_log_missed += satcc_log_pair_missed(pair);
		pair->attached = false;
	}

	/* Register one by one, which takes no longer than register_kretprobes() and shows
	 * which one failed.
	 */
	for (pair = satcc_log_pairs; pair->function; pair++) {
		if (pair->attached || !(pair->events & events))
			continue;
		err = satcc_log_attach_pair(pair);
		if (err)
			return err;
	}

	return 0;
}

/* Install the hooks that these events need and remove all others. */
int satcc_log_attach(u8 events)
{
	int err = satcc_log_attach_entries(events);

	return err ?: satcc_log_attach_pairs(events);
}

/* Returns the number of calls that hooks on return have missed so far. */
unsigned long satcc_log_hooks_missed(void)
{
	unsigned long missed = READ_ONCE(satcc_log_missed);
	const struct satcc_log_pair *pair;

	for (pair = satcc_log_pairs; pair->function; pair++)
		if (READ_ONCE(pair->attached))
			missed += satcc_log_pair_missed(pair);

	return missed;
}
