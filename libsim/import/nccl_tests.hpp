#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libsim/hardware/collective_tables.hpp"

namespace stagecraft {

/// What nccl-tests printed, and the file that it is in.
struct NcclTestsLog {
  std::string text;
  std::string origin;
};

struct NcclTestsImport {
  CollectiveTables tables;
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// Reads what all_reduce_perf, all_gather_perf and reduce_scatter_perf of nccl-tests (or rccl-tests)
/// print, any number of runs in a log: the collective, the ranks with their hosts, and the times
/// out of place in microseconds. What other programs print between, and the labels of `srun
/// --label`, do no harm. Times of one size and shape that was measured more than once are averaged.
///
/// Older versions do not print their name: the collective is then `kind`, or follows from the ratio
/// of the two bandwidths where something is summed.
/// Source: NVIDIA/nccl-tests, src/common.cu and doc/PERFORMANCE.md; `size` is that of the whole
/// tensor for all three.
/// \throws ConfigError  if there is no run that can be used, or one cannot be understood.
NcclTestsImport import_nccl_tests(std::vector<NcclTestsLog> const& logs,
                                  std::optional<OpKind> kind);

}  // namespace stagecraft
