#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/program/op.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Time of a batched matrix product, launch included.
///
/// The output is cut into tiles that the multiprocessors work on in waves. Each wave pays a
/// prologue and k steps of the main loop at the tile's share of peak. The best tile wins, as a
/// library heuristic would choose. The epilogue's traffic (writing C, and reading it if it
/// accumulates) is not hidden. The whole is never faster than `traffic` at the memory's streaming
/// rate.
///
/// Groups with different numbers of rows have tiles of their own, or none if they have no rows; all
/// share the waves. If the sums of groups differ in length, a wave takes the mean time of a tile,
/// because processors take up tiles when they become free, but all waves together take no less than
/// the longest tile.
///
/// `traffic` is the op's device-memory traffic, `output` the part of it that the epilogue moves.
/// `peak` is the accelerator's for the type of the operands.
/// Source: cost-model structure of CUTLASS's tile and wave quantisation (NVIDIA, "Matrix Multiplication
/// Background User's Guide", 2023, sections 3 and 4).
Seconds gemm_time(GemmAttributes const& gemm,
                  Bytes traffic,
                  Bytes output,
                  FlopsPerSecond peak,
                  System const& system);

/// The fraction of its peak that the main loop of a product of such operands sustains.
double main_loop_efficiency(ElementType operands, Calibration const& constants);

}  // namespace stagecraft
