/* SPDX-License-Identifier: GPL-2.0 */
/* modules/param.h for BPF: a parameter is a variable in the map .data.param, and a tag in the
 * object's BTF has its bounds. The loader refuses values out of bounds.
 */
#ifndef _SATCC_PARAM_H
#define _SATCC_PARAM_H

#include <linux/kernel.h>

#define SATCC_PARAM(name, value, min, max)				\
	unsigned int satcc_param_##name SEC(".data.param")		\
		__attribute__((btf_decl_tag("range " SATCC_TEXT(min) " " SATCC_TEXT(max)))) = value

/* The variable is the index of the word; the tag has the words. */
#define SATCC_PARAM_WORD(name, ...)					\
	unsigned int satcc_param_##name SEC(".data.param")		\
		__attribute__((btf_decl_tag("words " #__VA_ARGS__))) = 0

/* The count of the numbers, and the numbers. */
#define SATCC_PARAM_LIST(name, most, low, high, ...)			\
	struct {							\
		u32	count;						\
		u32	numbers[most];					\
	} satcc_param_##name SEC(".data.param")				\
		__attribute__((btf_decl_tag("range " SATCC_TEXT(low) " " SATCC_TEXT(high)))) = { \
		sizeof((u32[]){ __VA_ARGS__ }) / sizeof(u32), { __VA_ARGS__ } \
	}

#define satcc_list(name)	satcc_param_##name.numbers
#define satcc_count(name)	READ_ONCE(satcc_param_##name.count)

#define SATCC_TEXT(value)	SATCC_TEXT_OF(value)
#define SATCC_TEXT_OF(value)	#value

/* The current value of a parameter. */
#define satcc_param(name)	READ_ONCE(satcc_param_##name)

#endif /* _SATCC_PARAM_H */
