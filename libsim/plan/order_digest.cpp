#include "libsim/plan/order_digest.hpp"

#include <cstdint>
#include <unordered_map>

#include "libsim/host/sha256.hpp"
#include "libsim/plan/text_pieces.hpp"

namespace stagecraft {
namespace {

void append(std::string& key, std::int64_t number) {
  key.append(reinterpret_cast<char const*>(&number), sizeof(number));
}

/// The bytes that distinguish a program from others.
std::string key_of(StageProgram const& program) {
  constexpr std::size_t of_entry = 4 * sizeof(std::int64_t);
  std::string key;
  key.reserve((program.entries.size() + program.transfers.size() + 1) * of_entry);
  auto const pair = [](std::int32_t high, std::int32_t low) {
    return (std::int64_t{high} << 32) + low;
  };
  append(key, static_cast<std::int64_t>(program.entries.size()));
  for (IssueEntry const& entry : program.entries) {
    append(key, pair(static_cast<std::int32_t>(entry.kind), entry.task));
    append(key, pair(entry.microbatch.value(), entry.first));
    append(key, pair(entry.count, entry.times));
    append(key, entry.advance);
  }
  for (Transfer const& transfer : program.transfers) {
    append(key, pair(2 * static_cast<std::int32_t>(transfer.payload) +
                         static_cast<std::int32_t>(transfer.end),
                     transfer.peer.value()));
    append(key, pair(transfer.microbatch.value(), transfer.chunk.value()));
    append(key, transfer.message);
  }
  return key;
}

std::string digest_of(StageProgram const& program) {
  Sha256 digest;
  TextPieces out{[&](std::string_view piece) { digest.add(piece); }};
  IssueOrder const order = unroll(program);
  for (Transfer const& transfer : order.transfers) {
    out.words("transfer ", static_cast<int>(transfer.payload), static_cast<int>(transfer.end), " ",
              transfer.peer.value(), " ", transfer.microbatch.value(), ".", transfer.chunk.value(),
              " #", transfer.message, "\n");
  }
  for (IssueEntry const& step : order.entries) {
    out.words(static_cast<int>(step.kind), " ", step.task, " ", step.microbatch.value(), " ",
              step.first, "+", step.count, "\n");
  }
  out.hand_on();
  return digest.hexadecimal();
}

}  // namespace

std::string order_digest(StageProgram const& program) {
  constexpr std::size_t most_bytes = 8 << 20;
  // One per thread, so that it needs no lock and no fork can hang on one.
  thread_local std::unordered_map<std::string, std::string> known;
  thread_local std::size_t bytes = 0;
  std::string key = key_of(program);
  auto const found = known.find(key);
  if (found != known.end()) return found->second;
  std::string digest = digest_of(program);
  if (bytes + key.size() > most_bytes) {
    known.clear();
    bytes = 0;
  }
  if (key.size() <= most_bytes) {
    bytes += key.size();
    known.emplace(std::move(key), digest);
  }
  return digest;
}

}  // namespace stagecraft
