#include "libsim/schedule/orders/order_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

constexpr std::int32_t largest_number = 999'999;

/// Reads a whole number from the front of `text`, which it shortens.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  auto const read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || number < 0 || number > largest_number) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return number;
}

std::optional<ChunkRun> read_run(std::string_view text) {
  if (text.empty()) return std::nullopt;
  auto const pass = pass_letters.find(text.front());
  if (pass == std::string_view::npos) return std::nullopt;
  text.remove_prefix(1);
  auto const microbatch = take_number(text);
  if (!microbatch || text.empty() || text.front() != '.') return std::nullopt;
  text.remove_prefix(1);
  auto const chunk = take_number(text);
  if (!chunk || !text.empty()) return std::nullopt;
  return ChunkRun{static_cast<Pass>(pass), MicrobatchId{*microbatch}, ChunkId{*chunk}};
}

void append_word(std::vector<OrderTask>& tasks, std::string_view word) {
  auto const plus = word.find('+');
  auto const first = read_run(word.substr(0, plus));
  auto const second = plus == std::string_view::npos ? first : read_run(word.substr(plus + 1));
  if (!first || !second) {
    throw ScheduleError{"order", "'" + std::string{word} + "'",
                        "one of F, B, I, W, R with <microbatch>.<chunk>, like F0.0, or two of them "
                        "as a pair, like F1.0+B0.0"};
  }
  tasks.push_back({*first, plus != std::string_view::npos});
  if (plus != std::string_view::npos) tasks.push_back({*second, false});
}

}  // namespace

std::string text_of(ChunkRun const& run) {
  return letter_of(run.pass) + std::to_string(run.microbatch.value()) + '.' +
         std::to_string(run.chunk.value());
}

std::string order_text(std::vector<OrderTask> const& tasks) {
  std::string text;
  for (OrderTask const& task : tasks) {
    text += text_of(task.run);
    text += task.is_paired ? '+' : ' ';
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::vector<OrderTask> read_order_text(std::string_view text) {
  std::vector<OrderTask> tasks;
  while (!text.empty()) {
    auto const end = std::min(text.find(' '), text.size());
    if (end > 0) append_word(tasks, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return tasks;
}

}  // namespace stagecraft
