#include "libexec/comm/host_reduction.hpp"

#include <cstring>
#include <map>
#include <span>
#include <stdexcept>

#include "libexec/comm/collective_reduction.hpp"

namespace stagecraft {
namespace {

using Numbers = JobSession::Numbers;

/// What a process says before its tensor.
struct Introduction {
  std::int64_t first_member = 0;  ///< names the group, with its size
  std::int64_t members = 0;
  std::int64_t reduction = 0;
  std::int64_t type = 0;
  std::int64_t elements = 0;

  friend bool operator==(Introduction const&, Introduction const&) = default;
};
constexpr std::size_t introduction_words = sizeof(Introduction) / sizeof(std::int64_t);

std::size_t bytes_of(Collective const& collective) {
  return static_cast<std::size_t>(collective.elements * element_size(collective.type));
}

Numbers packed(Collective const& collective, std::vector<int> const& members) {
  std::size_t const bytes = bytes_of(collective);
  Numbers words(introduction_words + (bytes + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
  Introduction const own{.first_member = members.front(),
                         .members = static_cast<std::int64_t>(members.size()),
                         .reduction = static_cast<std::int64_t>(collective.reduction),
                         .type = static_cast<std::int64_t>(collective.type),
                         .elements = collective.elements};
  std::memcpy(words.data(), &own, sizeof own);
  if (bytes > 0) std::memcpy(words.data() + introduction_words, collective.source, bytes);
  return words;
}

Introduction introduction_of(Numbers const& words) {
  Introduction introduction;
  if (words.size() < introduction_words) throw std::logic_error{"a reduction is cut short"};
  std::memcpy(static_cast<void*>(&introduction), words.data(), sizeof introduction);
  return introduction;
}

/// What rank 0 does: each group's result, for each of its members.
std::vector<Numbers> reduced(std::vector<Numbers> const& all) {
  std::map<std::int64_t, std::vector<std::size_t>> groups;  // by first member
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    groups[introduction_of(all[rank]).first_member].push_back(rank);
  }
  std::vector<Numbers> results(all.size());
  for (auto const& [first, ranks] : groups) {
    Introduction const meant = introduction_of(all[ranks.front()]);
    std::vector<void const*> sources;
    for (std::size_t const rank : ranks) {
      if (introduction_of(all[rank]) != meant || all[rank].size() != all[ranks.front()].size()) {
        throw std::logic_error{"ranks of a group issue different collectives"};
      }
      sources.push_back(all[rank].data() + introduction_words);
    }
    if (static_cast<std::int64_t>(ranks.size()) != meant.members) {
      throw std::logic_error{"not all ranks of a group issue a collective"};
    }
    Numbers result(all[ranks.front()].size() - introduction_words);
    reduce_members({.reduction = static_cast<Reduction>(meant.reduction),
                    .type = static_cast<ElementType>(meant.type)},
                   sources, result.data(), meant.elements);
    for (std::size_t const rank : ranks) results[rank] = result;
  }
  return results;
}

}  // namespace

void reduce_over_session(JobSession& session,
                         Collective const& collective,
                         std::vector<int> const& members) {
  if (collective.kind != OpKind::all_reduce) {
    throw std::logic_error{"only all-reduces are made of numbers that the host has"};
  }
  auto const all = session.gather(packed(collective, members));
  Numbers const result =
      session.scatter(session.rank() == 0 ? reduced(all) : std::vector<Numbers>{});
  std::size_t const bytes = bytes_of(collective);
  if (bytes > 0) std::memcpy(collective.target, result.data(), bytes);
}

}  // namespace stagecraft
