/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's kernel.h for BPF, as far as the policies need it. */
#ifndef _SATCC_BPF_KERNEL_H
#define _SATCC_BPF_KERNEL_H

#include <linux/types.h>
#include <linux/minmax.h>

#define U16_MAX		0xffffU
#define U32_MAX		0xffffffffU
#define INT_MAX		0x7fffffff
#define USEC_PER_MSEC	1000L
#define USEC_PER_SEC	1000000L
#define EINVAL		22
#define BIT(nr)		(1UL << (nr))

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define __maybe_unused	__attribute__((unused))
#define READ_ONCE(x)	(*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) \
	do { *(volatile typeof(x) *)&(x) = (value); } while (0)
#define memset(to, byte, size)	__builtin_memset(to, byte, size)

/* BPF has no signed division, so this returns u32. All values here are below 2^31. */
#define abs(x)		({ s32 _x = (x); (u32)(_x < 0 ? -_x : _x); })

#define DIV_ROUND_UP(x, by)	(((x) + (by) - 1) / (by))

/* The loader prints this; see SATCC_CHECK_PROGRAM(). */
extern char satcc_error[128];

#define pr_err(format, ...)	BPF_SNPRINTF(satcc_error, sizeof(satcc_error), format, __VA_ARGS__)

/* Returns the square root, rounded down. It has no branch, because the verifier would follow
 * both ways for each digit. It is global, so that the verifier checks it once.
 */
__weak __noinline u32 int_sqrt64(u64 x)
{
	u64 bit = 1ULL << 62, root = 0, y, keep;
	int digit;

	for (digit = 0; digit < 32; digit++) {
		y = root + bit;
		/* all ones if x >= y: there is no borrow in x - y */
		keep = (((~x & y) | ((~x | y) & (x - y))) >> 63) - 1;
		barrier_var(keep);
		x -= y & keep;
		root = (root >> 1) + (bit & keep);
		bit >>= 2;
	}

	return root;
}

#define int_sqrt(x)	int_sqrt64(x)

#endif /* _SATCC_BPF_KERNEL_H */
