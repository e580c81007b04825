#include "libexec/executor/outcome_codec.hpp"

#include <cstddef>
#include <stdexcept>

namespace stagecraft {
namespace {

/// Reads numbers one after another.
class Numbers {
 public:
  explicit Numbers(std::vector<std::int64_t> const& all) : all_{all} {}

  std::int64_t next() { return all_[take(1)]; }
  TraceColumn column(std::size_t rows) {
    auto const first = all_.begin() + static_cast<std::ptrdiff_t>(take(rows));
    return {first, first + static_cast<std::ptrdiff_t>(rows)};
  }
  bool is_over() const { return at_ == all_.size(); }

 private:
  std::size_t take(std::size_t count) {
    if (count > all_.size() - at_) throw std::logic_error{"a rank's outcome is cut short"};
    at_ += count;
    return at_ - count;
  }
  std::vector<std::int64_t> const& all_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::int64_t> encode(RankOutcome const& outcome) {
  RankReport const& report = outcome.report;
  RankTrace const& trace = outcome.trace;
  std::vector<std::int64_t> numbers{report.rank.value(), report.stage.value(),
                                    report.activation_peak};
  for (int i = 0; i < category_count; ++i) {
    numbers.push_back(report.at_peak[static_cast<Category>(i)]);
  }
  DeviceMemoryUse const device = report.device.value_or(DeviceMemoryUse{});
  numbers.insert(numbers.end(), {report.device ? 1 : 0, device.before.count(),
                                 device.pool_peak.count(), device.after.count()});
  numbers.push_back(report.reserved.value_or(-1));
  numbers.push_back(static_cast<std::int64_t>(trace.ops.rows()));
  numbers.push_back(static_cast<std::int64_t>(trace.memory.rows()));
  numbers.push_back(static_cast<std::int64_t>(trace.memory.reserved.size()));
  auto const append = [&](TraceColumn const& column) {
    numbers.insert(numbers.end(), column.begin(), column.end());
  };
  for (OpColumn const& column : op_columns) append(trace.ops.*column.column);
  append(trace.memory.time);
  for (TraceColumn const& column : trace.memory.bytes) append(column);
  append(trace.memory.reserved);
  return numbers;
}

RankOutcome decode_outcome(std::vector<std::int64_t> const& all) {
  Numbers numbers{all};
  RankOutcome outcome;
  RankReport& report = outcome.report;
  report.rank = RankId{static_cast<int>(numbers.next())};
  report.stage = StageId{static_cast<int>(numbers.next())};
  report.activation_peak = numbers.next();
  for (int i = 0; i < category_count; ++i) {
    report.at_peak[static_cast<Category>(i)] = numbers.next();
  }
  bool const has_device = numbers.next() != 0;
  DeviceMemoryUse device;
  device.before = Bytes{numbers.next()};
  device.pool_peak = Bytes{numbers.next()};
  device.after = Bytes{numbers.next()};
  if (has_device) report.device = device;
  std::int64_t const reserved = numbers.next();
  if (reserved >= 0) report.reserved = reserved;
  RankTrace& trace = outcome.trace;
  trace.rank = report.rank.value();
  trace.stage = report.stage.value();
  auto const ops = static_cast<std::size_t>(numbers.next());
  auto const changes = static_cast<std::size_t>(numbers.next());
  auto const with_reserved = static_cast<std::size_t>(numbers.next());
  for (OpColumn const& column : op_columns) trace.ops.*column.column = numbers.column(ops);
  trace.memory.time = numbers.column(changes);
  for (TraceColumn& column : trace.memory.bytes) column = numbers.column(changes);
  trace.memory.reserved = numbers.column(with_reserved);
  if (!numbers.is_over()) throw std::logic_error{"a rank's outcome is too long"};
  return outcome;
}

}  // namespace stagecraft
