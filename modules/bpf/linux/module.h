/* SPDX-License-Identifier: GPL-2.0 */
/* The macros that make a policy's file a module; most are empty in BPF. */
#ifndef _SATCC_BPF_MODULE_H
#define _SATCC_BPF_MODULE_H

#include <linux/kernel.h>

#define __init			__maybe_unused
#define __exit			__maybe_unused
#define __read_mostly		__maybe_unused
#define THIS_MODULE		((struct module *)0)
#define BUILD_BUG_ON(condition)	_Static_assert(!(condition), #condition)
#define module_init(function)
#define module_exit(function)
#define MODULE_AUTHOR(text)
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)	char satcc_licence[] SEC("license") = text
#define MODULE_VERSION(text)
#define MODULE_PARM_DESC(name, text)

#endif /* _SATCC_BPF_MODULE_H */
