/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's divisions for BPF, which has an instruction for 64-bit division. A division
 * by 0 gives 0.
 */
#ifndef _SATCC_BPF_MATH64_H
#define _SATCC_BPF_MATH64_H

#include <linux/types.h>

#define div_u64(dividend, divisor)	((u64)(dividend) / (u32)(divisor))
#define div64_u64(dividend, divisor)	((u64)(dividend) / (u64)(divisor))
#define div64_long(dividend, divisor)	div64_u64(dividend, divisor)

#endif /* _SATCC_BPF_MATH64_H */
