/* SPDX-License-Identifier: GPL-2.0 */
/* modules/credit.h for BPF. The verifier of Linux 6.1 does not see that the loop of
 * satcc_avoid_rho() ends, after 27 turns at most, and is told so.
 */
#ifndef _SATCC_BPF_CREDIT_H
#define _SATCC_BPF_CREDIT_H

#include <linux/kernel.h>
#include <linux/math64.h>

#define while(condition)	for (int turn = 0; turn < 32 && (condition); turn++)
#include "../credit.h"
#undef while

#endif /* _SATCC_BPF_CREDIT_H */
