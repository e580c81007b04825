#include "libexec/comm/mpi_group.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "libexec/comm/collective_reduction.hpp"
#include "libexec/comm/mpi_check.hpp"

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
                             JobClock const& clock)
    : group_{group},
      ticket_{ticket},
      call_{collective},
      clock_{clock},
      most_{staging_bytes / (group.size * element_size(collective.type))},
      calls_(static_cast<std::size_t>(group.size)) {
  if (call_.kind == OpKind::all_reduce) {
    rounds_ = rounds_of(call_.elements, most_ * group_.size);
    return;
  }
  if (call_.kind == OpKind::ring_shift) {
    rounds_ = rounds_of(call_.elements, most_);
    return;
  }
  bool const is_exchange = call_.kind == OpKind::all_to_all;
  for (int i = 0; i < group_.size; ++i) {
    std::int64_t const elements = is_exchange ? std::max(call_.sent_to(i), call_.received_from(i))
                                              : call_.piece_begin(i + 1) - call_.piece_begin(i);
    rounds_ = std::max(rounds_, rounds_of(elements, most_));
  }
}

MpiOperation::Progress MpiCollective::advance() {
  auto progress = Progress::none;
  if (stage_ == Stage::waits_for_turn) {
    if (group_.turn != ticket_) return progress;
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
  SimTime start{0};
  for (Call const& call : calls_) start = std::max(start, call.collective.issued);
  time_ = {start, std::max(start, clock_.now())};
  return Progress::done;
}

std::string MpiCollective::description() const {
  std::string others;
  for (int const rank : group_.ranks) {
    if (rank == group_.ranks[static_cast<std::size_t>(group_.member)]) continue;
    others += (others.empty() ? "" : ", ") + std::to_string(rank);
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
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member) continue;
    check(MPI_Irecv(&calls_[static_cast<std::size_t>(i)], sizeof(Call), MPI_BYTE, i,
                    introduction_tag, group_.comm, &introductions_.emplace_back()));
  }
  for (int i = 0; i < group_.size; ++i) {
    if (i == group_.member) continue;
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
  for (Call const& call : calls_) {
    if (call.ticket != ticket_ || !are_alike(call.collective, call_)) {
      throw std::logic_error{"ranks of a group issue different collectives"};
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
  } else if (call_.kind == OpKind::all_gather) {
    gather();
  } else if (call_.kind == OpKind::all_to_all) {
    exchange();
  } else if (call_.kind == OpKind::ring_shift) {
    pass_on();
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

void MpiCollective::exchange() {
  stage_ = Stage::gathers;
  // A round moves the same part of each piece, as far as that reaches.
  std::int64_t const within = round_ * most_;
  auto const left = [&](std::int64_t elements) {
    return std::clamp<std::int64_t>(elements - within, 0, most_);
  };
  for (int i = 0; i < group_.size; ++i) {
    std::int64_t const elements = left(call_.received_from(i));
    if (elements == 0) continue;
    std::byte* const to = element_at(call_.target, call_.received_begin(i) + within, call_.type);
    if (i != group_.member) {
      receive(to, elements, i);
      continue;
    }
    std::memcpy(to, element_at(call_.source, call_.sent_begin(i) + within, call_.type),
                static_cast<std::size_t>(elements * element_size(call_.type)));
  }
  for (int i = 0; i < group_.size; ++i) {
    std::int64_t const elements = left(call_.sent_to(i));
    if (i == group_.member || elements == 0) continue;
    send(element_at(call_.source, call_.sent_begin(i) + within, call_.type), elements, i);
  }
}

void MpiCollective::pass_on() {
  stage_ = Stage::gathers;
  std::int64_t const begin = round_ * most_;
  std::int64_t const count = std::min(most_, call_.elements - begin);
  receive(element_at(call_.target, begin, call_.type), count,
          shifted(group_.member, -call_.shift, group_.size));
  send(element_at(call_.source, begin, call_.type), count,
       shifted(group_.member, call_.shift, group_.size));
}

void MpiCollective::reduce() {
  Range const own = piece(group_.member);
  std::vector<void const*> sources;
  sources.reserve(calls_.size());
  for (int i = 0; i < group_.size; ++i) {
    void const* const received = element_at(group_.staging.data(), i * most_, call_.type);
    bool const is_own = i == group_.member;
    sources.push_back(is_own ? element_at(call_.source, own.begin, call_.type) : received);
  }
  reduce_members(call_, sources, result(), own.count());
}

void MpiCollective::gather() {
  stage_ = Stage::gathers;
  Range const own = piece(group_.member);
  std::byte const* from = result();
  if (call_.kind == OpKind::all_gather) {
    std::int64_t const first = own.begin - call_.piece_begin(group_.member);
    from = element_at(call_.source, first, call_.type);
    auto const bytes = static_cast<std::size_t>(own.count() * element_size(call_.type));
    if (bytes > 0 && from != result()) std::memcpy(result(), from, bytes);
  }
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
