# SPDX-License-Identifier: GPL-2.0
"""The layout of a struct as pahole prints it."""

from bench.record import layout

UNIONS = """
struct policy {
    /* typedef u32 -> __u32 */ unsigned int               owner;                     /*     0     4 */
    union {
        /* typedef u32 -> __u32 */ unsigned int       train_end;                 /*     4     4 */
        /* typedef u32 -> __u32 */ unsigned int       credit;                    /*     4     4 */
    };                                                                               /*     4     4 */
    /* --- cacheline 1 boundary (64 bytes) --- */
    union {
        struct policy_start {
            /* typedef u64 -> __u64 */ long long unsigned int sum;           /*     8     8 */
        }start; /*     8     8 */
        struct policy_epoch {
            /* typedef u32 -> __u32 */ unsigned int w_max;                   /*     8     4 */
        }epoch; /*     8     4 */
    };                                                                               /*     8     8 */
    /* typedef u8 -> __u8 */ unsigned char              last:3;                      /*    16: 0  1 */

    /* size: 20, cachelines: 1, members: 4 */
};
"""


def test_members_of_unions_without_a_name():
    assert layout.fields(UNIONS.strip()) == {
        "owner": [0, 4, False, 0, 32], "train_end": [4, 4, False, 0, 32], "credit": [4, 4, False, 0, 32],
        "start_sum": [8, 8, False, 0, 64], "epoch_w_max": [8, 4, False, 0, 32],
        "last": [16, 1, False, 0, 3]}
