#include "libexec/comm/host_reduction.hpp"

#include <array>
#include <cstring>
#include <stdexcept>

#include "libexec/comm/collectives.hpp"

namespace stagecraft {
namespace {

using Numbers = std::vector<std::int64_t>;

/// The description of the collective that a process sends before its tensor; it is the same for all
/// members of a group.
using Introduction = std::array<std::int64_t, 7>;

Introduction introduction_of(Collective const& collective, std::vector<RankId> const& members) {
  return {members.front().value(),
          static_cast<std::int64_t>(members.size()),
          static_cast<std::int64_t>(collective.kind),
          collective.members_together,
          static_cast<std::int64_t>(collective.reduction),
          static_cast<std::int64_t>(collective.type),
          collective.elements};
}

bool is_introduced_by(Numbers const& words, Introduction const& introduction) {
  return words.size() >= introduction.size() &&
         std::equal(introduction.begin(), introduction.end(), words.begin());
}

}  // namespace

void reduce_in_host_memory(Collective const& collective,
                           std::vector<RankId> const& members,
                           int member,
                           AllGatherNumbers const& all_gather) {
  bool const is_prefix = collective.kind == OpKind::prefix_reduce;
  if (collective.kind != OpKind::all_reduce && !is_prefix) {
    throw std::logic_error{"host memory supports no collective but all_reduce and prefix_reduce"};
  }
  Introduction const introduction = introduction_of(collective, members);
  auto const bytes = static_cast<std::size_t>(collective.elements * element_size(collective.type));
  Numbers own(introduction.begin(), introduction.end());
  own.resize(introduction.size() + (bytes + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
  if (bytes > 0) std::memcpy(own.data() + introduction.size(), collective.source, bytes);
  std::vector<Numbers> const all = all_gather(own);
  std::vector<void const*> sources;
  for (RankId const rank : members) {
    Numbers const& words = all.at(rank.index());
    if (!is_introduced_by(words, introduction)) {
      refuse_different(collective, "another one of rank " + std::to_string(rank.value()));
    }
    sources.push_back(words.data() + introduction.size());
  }
  if (is_prefix) {
    auto const together = static_cast<std::size_t>(collective.members_together);
    sources.resize((static_cast<std::size_t>(member) / together + 1) * together);
  }
  reduce_members(collective, sources, collective.target, collective.elements);
}

}  // namespace stagecraft
