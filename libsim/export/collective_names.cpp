#include "libsim/export/collective_names.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace stagecraft {
namespace {

struct Row {
  OpKind kind;
  CollectiveNames names;
};

constexpr std::array rows{
    Row{OpKind::all_reduce, {"AllReduce", "allreduce", 0}},
    Row{OpKind::all_gather, {"AllGather", "_allgather_base", 2}},
    Row{OpKind::reduce_scatter, {"ReduceScatter", "_reduce_scatter_base", 7}},
    Row{OpKind::all_to_all, {"SendRecv", "all_to_allv", 6}},
    Row{OpKind::ring_shift, {"SendRecv", "coalesced", std::nullopt}},
    // Messages from stage to stage; Chakra's schema has nothing nearer than an all-reduce.
    Row{OpKind::prefix_reduce, {"SendRecv", "coalesced", 0}},
};

static_assert(std::all_of(op_kinds.begin(),
                          op_kinds.end(),
                          [](OpKind kind) {
                            auto const is_row = [&](Row const& row) { return row.kind == kind; };
                            return is_collective(kind) ==
                                   std::any_of(rows.begin(), rows.end(), is_row);
                          }),
              "each collective of op_kinds.def needs a row");

}  // namespace

CollectiveNames const& collective_names(OpKind kind) {
  for (Row const& row : rows) {
    if (row.kind == kind) return row.names;
  }
  throw std::logic_error{std::string{name_of(kind)} + " is no collective"};
}

}  // namespace stagecraft
