#include "libsim/schedule/stage_program.hpp"

namespace stagecraft {

IssueOrder unroll(StageProgram const& program) {
  IssueOrder order;
  std::size_t entries = 0;
  std::size_t transfers = 0;
  visit_entries(program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
    ++entries;
    if (entry.kind == IssueEntry::Kind::post) transfers += static_cast<std::size_t>(entry.count);
  });
  order.entries.reserve(entries);
  order.transfers.reserve(transfers);
  std::int32_t waited = 0;
  visit_entries(program, [&](IssueEntry const& entry, std::int32_t advance) {
    IssueEntry& made = order.entries.emplace_back(entry);
    switch (entry.kind) {
      case IssueEntry::Kind::run:
        made.microbatch = made.microbatch + advance;
        break;
      case IssueEntry::Kind::post:
        made.first = static_cast<std::int32_t>(order.transfers.size());
        for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
          Transfer& transfer =
              order.transfers.emplace_back(program.transfers[static_cast<std::size_t>(i)]);
          transfer.microbatch = transfer.microbatch + advance;
          transfer.message += advance;  // messages of a channel are numbered by their microbatches
        }
        break;
      case IssueEntry::Kind::wait:
        made.first = waited;
        waited += entry.count;
        break;
      case IssueEntry::Kind::drain:
      case IssueEntry::Kind::repeat:
        break;
    }
  });
  return order;
}

}  // namespace stagecraft
