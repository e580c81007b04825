#include "libsim/plan/repeated_laps.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "libsim/plan/fingerprint_sum.hpp"

namespace stagecraft {

namespace {

/// Calls `visit` with each microbatch that an entry refers to.
template <class Visit>
void visit_microbatches(IssueEntry const& entry, IssueOrder const& order, Visit visit) {
  if (entry.kind == IssueEntry::Kind::run && entry.microbatch >= 0) visit(entry.microbatch);
  bool const exchanges =
      entry.kind == IssueEntry::Kind::post || entry.kind == IssueEntry::Kind::wait;
  if (!exchanges) return;
  for (std::int32_t i = entry.first; i < entry.first + entry.count; ++i) {
    visit(order.transfers[static_cast<std::size_t>(i)].microbatch);
  }
}

void add(Fingerprint& content,
         IssueEntry const& entry,
         IssueOrder const& order,
         std::int32_t microbatch) {
  content.add(static_cast<std::int64_t>(entry.kind));
  if (entry.kind == IssueEntry::Kind::run) {
    content.add(entry.task);
    content.add(entry.microbatch < 0 ? std::numeric_limits<std::int32_t>::min()
                                     : entry.microbatch - microbatch);
    return;
  }
  content.add(entry.count);
  visit_microbatches(entry, order, [&](std::int32_t of) { content.add(of - microbatch); });
  bool const exchanges =
      entry.kind == IssueEntry::Kind::post || entry.kind == IssueEntry::Kind::wait;
  for (std::int32_t i = entry.first; exchanges && i < entry.first + entry.count; ++i) {
    Transfer const& transfer = order.transfers[static_cast<std::size_t>(i)];
    content.add(4 * transfer.chunk + 2 * static_cast<int>(transfer.payload) +
                static_cast<int>(transfer.end));
  }
}

}  // namespace

RepeatedLaps::RepeatedLaps(StagePlan const& stage) {
  IssueOrder const order = unroll(stage.program);
  laps_of_.assign(order.entries.size(), -1);
  std::size_t begin = 0;
  std::int32_t before = 0;  // the microbatch of the lap before
  std::int32_t end = 0;
  for (std::size_t i = 0; i < order.entries.size(); ++i) {
    IssueEntry const& entry = order.entries[i];
    visit_microbatches(entry, order, [&](std::int32_t of) { end = std::max(end, of + 1); });
    if (entry.kind != IssueEntry::Kind::run) continue;
    Task const& task = stage.tasks[static_cast<std::size_t>(entry.task)];
    if (!ends_in_flight(task) || task.chunk != 0) continue;
    laps_of_[i] = static_cast<std::int32_t>(laps_.size());
    Fingerprint content;
    content.add(entry.microbatch - before);
    for (std::size_t k = begin; k <= i; ++k) {
      add(content, order.entries[k], order, entry.microbatch);
    }
    laps_.push_back({.entry = static_cast<std::int32_t>(i),
                     .microbatch = entry.microbatch,
                     .first = end,
                     .end = end,
                     .content = content.value()});
    begin = i + 1;
    before = entry.microbatch;
  }
  std::int32_t first = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = order.entries.size(); i-- > 0;) {
    if (std::int32_t const lap = laps_of_[i]; lap >= 0) {
      Lap& ended = laps_[static_cast<std::size_t>(lap)];
      ended.first = std::min(first, ended.end);
    }
    visit_microbatches(order.entries[i], order,
                       [&](std::int32_t of) { first = std::min(first, of); });
  }
}

std::optional<LeftOut> RepeatedLaps::after(BufferEvents const& events, std::uint64_t state) {
  std::int32_t const now = laps_of_[static_cast<std::size_t>(events.entry())];
  auto const at = [&](std::int32_t lap) -> Lap const& {
    return laps_[static_cast<std::size_t>(lap)];
  };
  Lap const& ended = at(now);
  Fingerprint whole;
  whole.add(static_cast<std::int64_t>(state));
  whole.add(static_cast<std::int64_t>(events.numbering(ended.first, ended.end, ended.microbatch)));
  auto const same = std::find_if(seen_.rbegin(), seen_.rend(),
                                 [&](Seen const& seen) { return seen.state == whole.value(); });
  if (same == seen_.rend()) {
    seen_.push_back({whole.value(), now, events.buffers()});
    return std::nullopt;
  }
  std::int32_t const period = now - same->lap;
  std::int32_t alike = 0;  // laps behind this one that are as those behind the other
  while (now + alike + 1 < static_cast<std::int32_t>(laps_.size()) &&
         at(same->lap + alike + 1).content == at(now + alike + 1).content) {
    ++alike;
  }
  std::int32_t const periods = alike / period;
  Lap const& last = at(now + periods * period);
  if (periods == 0 || last.microbatch <= ended.microbatch) return std::nullopt;
  LeftOut const part{.entry = last.entry,
                     .first = ended.first,
                     .end = ended.end,
                     .advance = last.microbatch - ended.microbatch,
                     .buffers = periods * (events.buffers() - same->buffers)};
  forget();
  return part;
}

}  // namespace stagecraft
