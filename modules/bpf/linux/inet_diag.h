/* SPDX-License-Identifier: GPL-2.0 */
/* For the module's ->get_info(). A BPF policy does not register one: the kernel refuses it. */
#ifndef _SATCC_BPF_INET_DIAG_H
#define _SATCC_BPF_INET_DIAG_H

#define INET_DIAG_VEGASINFO	3

#endif /* _SATCC_BPF_INET_DIAG_H */
