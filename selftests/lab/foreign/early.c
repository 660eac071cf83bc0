// SPDX-License-Identifier: GPL-2.0
/* A module that is not the project's, for test_log.py: while satcc_log is loaded, it turns the
 * event cc_call on before satcc_log's parameters are set. Linux 7.2 does so after
 * "echo :mod:satcc_log > set_event".
 */
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/string.h>
#include <linux/trace_events.h>

static int early_notify(struct notifier_block *block, unsigned long state, void *data)
{
	const struct module *module = data;

	if (state == MODULE_STATE_COMING && !strcmp(module->name, "satcc_log"))
		trace_set_clr_event("satcc", "cc_call", 1);

	return NOTIFY_DONE;
}

/* After the kernel's own notifier, which makes the events, and whose priority is 1. */
static struct notifier_block early = {
	.notifier_call	= early_notify,
};

static int __init early_start(void)
{
	return register_module_notifier(&early);
}

static void __exit early_stop(void)
{
	unregister_module_notifier(&early);
}

module_init(early_start);
module_exit(early_stop);
MODULE_LICENSE("GPL");
