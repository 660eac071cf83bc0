/* SPDX-License-Identifier: GPL-2.0 */
/* The part of the kernel's header that modules/ needs, for user space. */
#ifndef _UNIT_LINUX_KERNEL_H
#define _UNIT_LINUX_KERNEL_H

#include <linux/types.h>

/* Returns the square root, rounded down, computed bit by bit as in the kernel. */
static inline u32 int_sqrt64(u64 x)
{
	u64 bit = 1ULL << 62, root = 0;

	while (bit > x)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		if (x >= root + bit) {
			x -= root + bit;
			root += 2 * bit;
		}
		root >>= 1;
	}

	return root;
}

#endif
