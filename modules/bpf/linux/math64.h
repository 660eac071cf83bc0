/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's divisions for BPF, which divides 64 bits by an instruction. A divisor of 0
 * gives 0 there.
 */
#ifndef _SATCC_BPF_MATH64_H
#define _SATCC_BPF_MATH64_H

#include <linux/types.h>

#define div_u64(dividend, divisor)	((u64)(dividend) / (u32)(divisor))
#define div64_u64(dividend, divisor)	((u64)(dividend) / (u64)(divisor))
#define div64_long(dividend, divisor)	div64_u64(dividend, divisor)

#endif /* _SATCC_BPF_MATH64_H */
