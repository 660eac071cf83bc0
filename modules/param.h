/* SPDX-License-Identifier: GPL-2.0 */
/* Module parameters that refuse values out of bounds, at load and later.
 *
 *   SATCC_PARAM(rtt0_ms, 25, 1, 100000);
 *   ... satcc_param(rtt0_ms) ...	read it once: the value may change in between
 *
 * modules/bpf/param.h has the same macros for BPF.
 */
#ifndef _SATCC_PARAM_H
#define _SATCC_PARAM_H

#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "compat.h"

/* Define a parameter. Its MODULE_PARM_DESC() gives unit, bounds and default. Flows read
 * the value without a lock.
 */
#define SATCC_PARAM(name, value, min, max)				\
	static unsigned int satcc_param_##name __read_mostly = value;	\
	static int satcc_param_set_##name(const char *val,		\
					  const struct kernel_param *kp) \
	{								\
		return param_set_uint_minmax(val, kp, min, max);	\
	}								\
	static const struct kernel_param_ops satcc_param_ops_##name = {	\
		.set = satcc_param_set_##name,				\
		.get = param_get_uint,					\
	};								\
	module_param_cb(name, &satcc_param_ops_##name,			\
			&satcc_param_##name, 0644)

/* The current value of a parameter. */
#define satcc_param(name)	READ_ONCE(satcc_param_##name)

/* Define a parameter whose value is one of the given words. satcc_param() is the index of
 * the word, from 0. The first word is the default.
 */
#define SATCC_PARAM_WORD(name, ...)					\
	static const char * const satcc_words_##name[] = { __VA_ARGS__ }; \
	static u8 satcc_param_##name __read_mostly;			\
	static int satcc_param_set_##name(const char *val,		\
					  const struct kernel_param *kp) \
	{								\
		int index = sysfs_match_string(satcc_words_##name, val); \
									\
		if (index < 0)						\
			return index;					\
		WRITE_ONCE(satcc_param_##name, index);			\
									\
		return 0;						\
	}								\
	static int satcc_param_get_##name(char *buffer,			\
					  const struct kernel_param *kp) \
	{								\
		return sysfs_emit(buffer, "%s\n",			\
				  satcc_words_##name[READ_ONCE(satcc_param_##name)]); \
	}								\
	static const struct kernel_param_ops satcc_param_ops_##name = {	\
		.set = satcc_param_set_##name,				\
		.get = satcc_param_get_##name,				\
	};								\
	module_param_cb(name, &satcc_param_ops_##name, NULL, 0644)

/* Define a parameter that is a list of 1 to most numbers, each from low to high, with its
 * default. It can only be set at load, because a flow may be reading it.
 */
#define SATCC_PARAM_LIST(name, most, low, high, ...)			\
	static u32 satcc_list_##name[most] = { __VA_ARGS__ };		\
	static unsigned int satcc_count_##name =			\
		sizeof((u32[]){ __VA_ARGS__ }) / sizeof(u32);		\
	static int satcc_param_set_##name(const char *val,		\
					  const struct kernel_param *kp) \
	{								\
		return param_set_uint_minmax(val, kp, low, high);	\
	}								\
	static const struct kernel_param_ops satcc_param_ops_##name = {	\
		.set = satcc_param_set_##name,				\
		.get = param_get_uint,					\
	};								\
	static struct kparam_array satcc_array_##name = {		\
		.max	  = ARRAY_SIZE(satcc_list_##name),		\
		.elemsize = sizeof(u32),				\
		.num	  = &satcc_count_##name,			\
		.ops	  = &satcc_param_ops_##name,			\
		.elem	  = satcc_list_##name,				\
	};								\
	module_param_cb(name, &param_array_ops, &satcc_array_##name, 0444)

/* The numbers of a list, and their count. */
#define satcc_list(name)	satcc_list_##name
#define satcc_count(name)	satcc_count_##name

#endif /* _SATCC_PARAM_H */
