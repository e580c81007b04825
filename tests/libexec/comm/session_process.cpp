// One process of a job without MPI: what session_test.py starts and ends.
//
// usage: session_process WHAT [--rank R --world-size N] [--master H:P | --rendezvous DIR]
//   agree   gathers, scatters, reduces, compares clocks; rank 0 prints "agreed"
//   wait    prints "here", then rank 0 waits for all, who wait for ever
//   fail R  as wait, but rank R fails with exit code 7
//   early R as wait, but rank R leaves

#include <cstdlib>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "libexec/comm/host_reduction.hpp"
#include "libexec/comm/process_session.hpp"

namespace stagecraft {
namespace {

using Numbers = JobSession::Numbers;

void require(bool is_true, std::string const& what) {
  if (!is_true) throw std::runtime_error{what};
}

/// Ranks 2k and 2k + 1 add, in a job of an even number of processes.
void check_reduction(JobSession& session) {
  int const rank = session.rank();
  std::vector<int> const pair{rank / 2 * 2, rank / 2 * 2 + 1};
  std::vector<std::int64_t> sums{rank, std::int64_t{1} << 60};
  reduce_over_session(session,
                      {.group = CollectiveGroup::model,
                       .type = ElementType::i64,
                       .source = sums.data(),
                       .target = sums.data(),
                       .elements = 2,
                       .in_host_memory = true},
                      pair);
  require(sums == std::vector<std::int64_t>{pair[0] + pair[1], std::int64_t{1} << 61},
          "pair's sum");
  float largest = static_cast<float>(rank);
  std::vector<int> everyone;
  for (int i = 0; i < session.size(); ++i) everyone.push_back(i);
  reduce_over_session(session,
                      {.group = CollectiveGroup::job,
                       .reduction = Reduction::maximum,
                       .source = &largest,
                       .target = &largest,
                       .elements = 1,
                       .in_host_memory = true},
                      everyone);
  require(largest == static_cast<float>(session.size() - 1), "maximum");
}

void agree(JobSession& session) {
  int const rank = session.rank();
  // More than the system buffers for a connection.
  Numbers const own(static_cast<std::size_t>(rank) * 1'000'000, rank);
  auto const all = session.gather(own);
  require(all.size() == static_cast<std::size_t>(rank == 0 ? session.size() : 0), "gathered");
  for (std::size_t i = 0; i < all.size(); ++i) {
    require(all[i] == Numbers(i * 1'000'000, static_cast<std::int64_t>(i)), "gathered numbers");
  }
  std::vector<Numbers> parts;
  for (int i = 0; rank == 0 && i < session.size(); ++i) parts.push_back({i, 10 * i});
  require(session.scatter(parts) == Numbers{rank, 10 * rank}, "scattered");
  require(broadcast(session, {rank + 5}) == Numbers{5}, "broadcast");
  require(session.clock_offset() == std::chrono::nanoseconds{0}, "clocks of one machine");
  check_reduction(session);
  barrier(session);
  if (rank == 0) std::cout << "agreed\n";
}

void wait_for_ever(JobSession& session) {
  barrier(session);
  std::cout << "here" << std::endl;
  session.gather({});
  if (session.rank() != 0) session.scatter({});
  session.gather({});
}

int run(std::vector<std::string> const& words) {
  std::map<std::string, std::string> options;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) options[words[i]] = words[i + 1];
  auto const value = [&](char const* option) -> std::optional<std::string> {
    auto const found = options.find(option);
    return found == options.end() ? std::nullopt : std::optional{found->second};
  };
  ProcessPlace const place = find_process({.rank = value("--rank"),
                                           .size = value("--world-size"),
                                           .master = value("--master"),
                                           .rendezvous = value("--rendezvous")},
                                          from_environment);
  ProcessSession session{
      place,
      [](std::exception_ptr const& error) -> LastWords {
        try {
          std::rethrow_exception(error);
        } catch (std::exception const& problem) {
          return {7, std::string{"last words: "} + problem.what() + '\n'};
        }
      },
      {.meeting = std::chrono::seconds{std::stoi(value("--meeting").value_or("30"))},
       .silence = std::chrono::seconds{std::stoi(value("--silence").value_or("30"))}}};
  try {
    if (words[0] == "agree") agree(session);
    if (words[0] == "wait") wait_for_ever(session);
    bool const is_named = words.size() > 1 && words[1] == std::to_string(session.rank());
    if (words[0] == "fail" && is_named)
      throw std::runtime_error{"rank " + words[1] + ", out of paper"};
    if (words[0] == "fail" || (words[0] == "early" && !is_named)) wait_for_ever(session);
    return 0;
  } catch (...) {
    session.fail(std::current_exception());
  }
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  try {
    return stagecraft::run({argv + 1, argv + argc});
  } catch (std::exception const& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
