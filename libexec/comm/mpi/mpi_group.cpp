#include "libexec/comm/mpi/mpi_group.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <utility>

#include "libexec/comm/collectives.hpp"
#include "libexec/comm/mpi/mpi_progress.hpp"

namespace stagecraft {
namespace {

constexpr int data_tag = 0;
constexpr int introduction_tag = 1;

std::int64_t rounds_of(std::int64_t elements, std::int64_t a_round) {
  return (elements + a_round - 1) / a_round;
}

}  // namespace

MpiCollective::MpiCollective(MpiGroup& group,
                             Communicator::Ticket ticket,
                             Collective const& collective,
                             JobClock const& clock,
                             std::shared_ptr<MpiCollective const> after)
    : group_{group},
      ticket_{ticket},
      call_{collective},
      clock_{clock},
      after_{std::move(after)},
      most_{staging_bytes / (group.size * element_size(collective.type))},
      calls_(static_cast<std::size_t>(group.size)) {
  if (call_.kind == OpKind::all_reduce) {
    rounds_ = rounds_of(call_.elements, most_ * group_.size);
    return;
  }
  if (call_.kind == OpKind::prefix_reduce) {
    rounds_ = rounds_of(call_.elements, most_);
    return;
  }
  if (!computes(call_.kind)) {
    for (int i = 0; i < group_.size; ++i) {
      for (auto const& part : {received_from(i), sent_to(i)}) {
        if (part) rounds_ = std::max(rounds_, rounds_of(part->elements, most_));
      }
    }
    return;
  }
  for (int i = 0; i < group_.size; ++i) {
    std::int64_t const elements = call_.piece_begin(i + 1) - call_.piece_begin(i);
    rounds_ = std::max(rounds_, rounds_of(elements, most_));
  }
}

MpiOperation::Progress MpiCollective::advance() {
  auto progress = Progress::none;
  if (stage_ == Stage::waits_for_turn) {
    if (group_.turn != ticket_ || (after_ && !after_->is_over_)) return progress;
    if (after_) call_.issued = std::max(call_.issued, after_->time().end);
    if (group_.staging.empty()) group_.staging.resize(staging_bytes);
    introduce();
    begin_round();
    progress = Progress::some;
  }
  bool const met = has_met();
  while (stage_ != Stage::agrees && all_have_arrived()) {
    progress = Progress::some;
    if (stage_ == Stage::scatters) {
      reduce();
      if (call_.kind == OpKind::all_reduce) {
        gather();
        continue;
      }
    }
    ++round_;
    begin_round();
  }
  if (stage_ != Stage::agrees || !met) return progress;
  ++group_.turn;
  is_over_ = true;
  SimTime start{0};
  for (Call const& call : calls_) start = std::max(start, call.collective.issued);
  time_ = {start, std::max(start, clock_.now())};
  return Progress::done;
}

std::string MpiCollective::description() const {
  std::string others;
  for (RankId const rank : group_.ranks) {
    if (rank == group_.ranks[static_cast<std::size_t>(group_.member)]) continue;
    others += (others.empty() ? "" : ", ") + std::to_string(rank.value());
  }
  return std::string{name_of(call_.kind)} + ' ' +
         (call_.op == Name{} ? "between iterations" : to_string(call_.op)) + " with " +
         (group_.ranks.size() > 2 ? "ranks " : "rank ") + others;
}

void MpiCollective::introduce() {
  static_assert(std::is_trivially_copyable_v<Call>);
  Call& own = calls_[static_cast<std::size_t>(group_.member)];
  own = {call_, ticket_};
  introductions_.reserve(2 * calls_.size());
  bool const is_prefix = call_.kind == OpKind::prefix_reduce;
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member || (is_prefix && !needs(i))) continue;
    check(MPI_Irecv(&calls_[static_cast<std::size_t>(i)], sizeof(Call), MPI_BYTE, i,
                    introduction_tag, group_.comm, &introductions_.emplace_back()));
  }
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member || (is_prefix && !is_needed_by(i))) continue;
    check(MPI_Isend(&own, sizeof(Call), MPI_BYTE, i, introduction_tag, group_.comm,
                    &introductions_.emplace_back()));
  }
}

bool MpiCollective::has_met() {
  if (introductions_.empty()) return true;
  int is_done = 0;
  check(MPI_Testall(static_cast<int>(introductions_.size()), introductions_.data(), &is_done,
                    MPI_STATUSES_IGNORE));
  if (is_done == 0) return false;
  introductions_.clear();
  std::size_t const known =
      call_.kind == OpKind::prefix_reduce
          ? static_cast<std::size_t>(first_needing(group_.member) + call_.members_together)
          : calls_.size();
  for (Call const& call : std::span{calls_}.first(known)) {
    if (call.ticket != ticket_ || !are_alike(call.collective, call_)) {
      refuse_different(call_, described(call.collective));
    }
  }
  return true;
}

MpiCollective::Range MpiCollective::piece(int i) const {
  if (call_.kind == OpKind::all_reduce) {
    std::int64_t const begin = round_ * most_ * group_.size;
    std::int64_t const end = std::min(begin + most_ * group_.size, call_.elements);
    std::int64_t const share = rounds_of(end - begin, group_.size);
    return {std::min(begin + i * share, end), std::min(begin + (i + 1) * share, end)};
  }
  if (call_.kind == OpKind::prefix_reduce) {
    std::int64_t const begin = round_ * most_;
    return {begin, std::min(begin + most_, call_.elements)};
  }
  std::int64_t const end = call_.piece_begin(i + 1);
  std::int64_t const begin = std::min(call_.piece_begin(i) + round_ * most_, end);
  return {begin, std::min(begin + most_, end)};
}

std::byte* MpiCollective::result() const {
  std::int64_t const begin = piece(group_.member).begin;
  bool const is_piece = call_.kind == OpKind::reduce_scatter;
  std::int64_t const first = is_piece ? begin - call_.piece_begin(group_.member) : begin;
  return element_at(call_.target, first, call_.type);
}

void MpiCollective::begin_round() {
  if (round_ == rounds_) {
    stage_ = Stage::agrees;
  } else if (!computes(call_.kind)) {
    exchange();
  } else if (call_.kind == OpKind::prefix_reduce) {
    hand_on();
  } else {
    scatter();
  }
}

void MpiCollective::scatter() {
  stage_ = Stage::scatters;
  std::int64_t const own = piece(group_.member).count();
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member) continue;
    receive(element_at(group_.staging.data(), i * most_, call_.type), own, i);
  }
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member) continue;
    Range const range = piece(i);
    send(element_at(call_.source, range.begin, call_.type), range.count(), i);
  }
}

void MpiCollective::hand_on() {
  stage_ = Stage::scatters;
  Range const part = piece(group_.member);
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member) continue;
    if (needs(i)) {
      receive(element_at(group_.staging.data(), i * most_, call_.type), part.count(), i);
    }
    if (is_needed_by(i)) send(element_at(call_.source, part.begin, call_.type), part.count(), i);
  }
}

std::optional<MovedPart> MpiCollective::sent_to(int i) const {
  return sent_part(call_, group_.member, i, group_.size);
}

std::optional<MovedPart> MpiCollective::received_from(int i) const {
  return received_part(call_, group_.member, i, group_.size);
}

MovedPart MpiCollective::of_round(MovedPart const& part) const {
  std::int64_t const begin = std::min(round_ * most_, part.elements);
  return {part.begin + begin, std::min(most_, part.elements - begin)};
}

void MpiCollective::exchange() {
  stage_ = Stage::gathers;
  for (int i = 0; i < group_.size; ++i) {
    auto const received = received_from(i);
    if (!received) continue;
    MovedPart const part = of_round(*received);
    std::byte* const to = element_at(call_.target, part.begin, call_.type);
    if (i != group_.member) {
      receive(to, part.elements, i);
      continue;
    }
    std::byte const* const from =
        element_at(call_.source, of_round(sent_to(i).value()).begin, call_.type);
    auto const bytes = static_cast<std::size_t>(part.elements * element_size(call_.type));
    if (bytes > 0 && from != to) std::memcpy(to, from, bytes);
  }
  for (int i = 0; i < group_.size; ++i) {
    auto const sent = sent_to(i);
    if (!sent || i == group_.member) continue;
    MovedPart const part = of_round(*sent);
    send(element_at(call_.source, part.begin, call_.type), part.elements, i);
  }
}

void MpiCollective::reduce() {
  Range const own = piece(group_.member);
  std::vector<void const*> sources;
  sources.reserve(calls_.size());
  for (int i = 0; i < group_.size; ++i) {
    if (call_.kind == OpKind::prefix_reduce && !needs(i)) break;
    void const* const received = element_at(group_.staging.data(), i * most_, call_.type);
    bool const is_own = i == group_.member;
    sources.push_back(is_own ? element_at(call_.source, own.begin, call_.type) : received);
  }
  reduce_members(call_, sources, result(), own.count());
}

void MpiCollective::gather() {
  stage_ = Stage::gathers;
  Range const own = piece(group_.member);
  std::byte const* const from = result();
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member) continue;
    Range const range = piece(i);
    receive(element_at(call_.target, range.begin, call_.type), range.count(), i);
  }
  for (int i = 0; i < group_.size; ++i) {
    if (i != group_.member) send(from, own.count(), i);
  }
}

bool MpiCollective::all_have_arrived() {
  int is_done = 0;
  check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &is_done,
                    MPI_STATUSES_IGNORE));
  if (is_done != 0) requests_.clear();
  return is_done != 0;
}

void MpiCollective::receive(std::byte* data, std::int64_t elements, int from) {
  if (elements == 0) return;
  check(MPI_Irecv(data, static_cast<int>(elements * element_size(call_.type)), MPI_BYTE, from,
                  data_tag, group_.comm, &requests_.emplace_back()));
}

void MpiCollective::send(std::byte const* data, std::int64_t elements, int to) {
  if (elements == 0) return;
  check(MPI_Isend(data, static_cast<int>(elements * element_size(call_.type)), MPI_BYTE, to,
                  data_tag, group_.comm, &requests_.emplace_back()));
}

}  // namespace stagecraft
