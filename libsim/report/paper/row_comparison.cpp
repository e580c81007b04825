#include "libsim/report/paper/row_comparison.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {
namespace {

std::string const& text_at(std::vector<std::string> const& names, std::int64_t index) {
  return names[static_cast<std::size_t>(index)];
}

std::string difference_of(std::string_view column, std::string const& a, std::string const& b) {
  return std::string{column} + " " + a + " and " + b;
}

/// For each name of B, its number in A; -1 if A lacks it.
std::vector<std::int64_t> numbers_in(std::vector<std::string> const& a,
                                     std::vector<std::string> const& b) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(b.size());
  for (std::string const& name : b) {
    auto const at = std::find(a.begin(), a.end(), name);
    numbers.push_back(at == a.end() ? -1 : at - a.begin());
  }
  return numbers;
}

/// A column whose numbers are indices into a list of names, which each trace has of its own.
struct NamedColumn {
  std::string_view name;
  TraceColumn OpColumns::*column;
  std::vector<std::string> TraceNames::*names;
};

/// A column of numbers.
struct NumberColumn {
  std::string_view name;
  TraceColumn OpColumns::*column;
};

constexpr std::array<NamedColumn, 3> named_columns{
    {{"op", &OpColumns::op, &TraceNames::op},
     {"phase", &OpColumns::phase, &TraceNames::phase},
     {"stream", &OpColumns::stream, &TraceNames::stream}}};
constexpr std::array<NumberColumn, 3> place_columns{{{"layer", &OpColumns::layer},
                                                     {"microbatch", &OpColumns::microbatch},
                                                     {"chunk", &OpColumns::chunk}}};
constexpr std::array<NumberColumn, 2> size_columns{
    {{"bytes", &OpColumns::bytes}, {"flops", &OpColumns::flops}}};

/// The rows that are work. Waits for the host and what an iteration costs besides are rows of the
/// cost model only; an executor has none.
OpColumns work_of(OpColumns const& ops, TraceNames const& names) {
  std::vector<bool> is_work;
  is_work.reserve(names.op.size());
  for (std::string const& name : names.op) {
    is_work.push_back(name != "iteration_overhead" && name != name_of(TracePhase::host_wait));
  }
  OpColumns work;
  for (OpColumn const& column : op_columns) {
    TraceColumn const& all = ops.*column.column;
    for (std::size_t row = 0; row < ops.rows(); ++row) {
      if (is_work[static_cast<std::size_t>(ops.op[row])]) (work.*column.column).push_back(all[row]);
    }
  }
  return work;
}

/// Keeps the earliest of several differences.
void keep_first(std::optional<RowDifference>& first, std::size_t row, std::string what) {
  if (!first || row < first->row) first = RowDifference{row, std::move(what)};
}

/// The first row of a column of numbers that differs, before `end`.
void compare_numbers(NumberColumn const& column,
                     OpColumns const& a,
                     OpColumns const& b,
                     std::size_t end,
                     std::optional<RowDifference>& first) {
  TraceColumn const& of_a = a.*column.column;
  TraceColumn const& of_b = b.*column.column;
  auto const stop = of_a.begin() + static_cast<std::ptrdiff_t>(end);
  auto const [at, other] = std::mismatch(of_a.begin(), stop, of_b.begin());
  if (at == stop) return;
  keep_first(first, static_cast<std::size_t>(at - of_a.begin()),
             difference_of(column.name, std::to_string(*at), std::to_string(*other)));
}

void compare_names(NamedColumn const& column,
                   OpColumns const& a,
                   TraceNames const& names_of_a,
                   OpColumns const& b,
                   TraceNames const& names_of_b,
                   std::size_t end,
                   std::optional<RowDifference>& first) {
  std::vector<std::string> const& texts_a = names_of_a.*column.names;
  std::vector<std::string> const& texts_b = names_of_b.*column.names;
  std::vector<std::int64_t> const number = numbers_in(texts_a, texts_b);
  TraceColumn const& of_a = a.*column.column;
  TraceColumn const& of_b = b.*column.column;
  for (std::size_t row = 0; row < end; ++row) {
    if (number[static_cast<std::size_t>(of_b[row])] == of_a[row]) continue;
    keep_first(first, row,
               difference_of(column.name, printable(text_at(texts_a, of_a[row])),
                             printable(text_at(texts_b, of_b[row]))));
    return;
  }
}

std::int64_t largest_apart(TraceColumn const& a, TraceColumn const& b, std::size_t end) {
  std::int64_t apart = 0;
  for (std::size_t row = 0; row < end; ++row) apart = std::max(apart, std::abs(a[row] - b[row]));
  return apart;
}

bool is_counted(std::size_t category) {
  return category != static_cast<std::size_t>(Category::workspace);
}

/// The rows of memory at which a category but workspace changes.
std::vector<std::size_t> states_of(MemoryColumns const& memory) {
  std::vector<std::size_t> states;
  for (std::size_t row = 0; row < memory.rows(); ++row) {
    bool changes = states.empty();
    for (std::size_t c = 0; c < memory.bytes.size() && !changes; ++c) {
      changes = is_counted(c) && memory.bytes[c][row] != memory.bytes[c][states.back()];
    }
    if (changes) states.push_back(row);
  }
  return states;
}

std::optional<RowDifference> compare_states(MemoryColumns const& a, MemoryColumns const& b) {
  std::vector<std::size_t> const states_a = states_of(a);
  std::vector<std::size_t> const states_b = states_of(b);
  std::size_t const end = std::min(states_a.size(), states_b.size());
  for (std::size_t state = 0; state < end; ++state) {
    for (std::size_t c = 0; c < a.bytes.size(); ++c) {
      std::int64_t const of_a = a.bytes[c][states_a[state]];
      std::int64_t const of_b = b.bytes[c][states_b[state]];
      if (!is_counted(c) || of_a == of_b) continue;
      return RowDifference{state, difference_of(name_of(static_cast<Category>(c)),
                                                std::to_string(of_a), std::to_string(of_b)) +
                                      " bytes"};
    }
    if (a.reserved.empty() || b.reserved.empty()) continue;
    std::int64_t const of_a = a.reserved[states_a[state]];
    std::int64_t const of_b = b.reserved[states_b[state]];
    if (of_a == of_b) continue;
    return RowDifference{
        state, difference_of("reserved", std::to_string(of_a), std::to_string(of_b)) + " bytes"};
  }
  if (states_a.size() == states_b.size()) return std::nullopt;
  return RowDifference{end, difference_of("states", std::to_string(states_a.size()),
                                          std::to_string(states_b.size()))};
}

}  // namespace

RowComparison compare_rows(RankTrace const& a,
                           TraceNames const& names_of_a,
                           RankTrace const& b,
                           TraceNames const& names_of_b) {
  RowComparison result;
  result.ranks = {a.rank, b.rank};
  result.stage = a.stage;
  OpColumns const work_a = work_of(a.ops, names_of_a);
  OpColumns const work_b = work_of(b.ops, names_of_b);
  std::size_t const rows = std::min(work_a.rows(), work_b.rows());
  for (NamedColumn const& column : named_columns) {
    compare_names(column, work_a, names_of_a, work_b, names_of_b, rows, result.order);
  }
  for (NumberColumn const& column : place_columns) {
    compare_numbers(column, work_a, work_b, rows, result.order);
  }
  if (!result.order && work_a.rows() != work_b.rows()) {
    result.order = RowDifference{
        rows, difference_of("rows", std::to_string(work_a.rows()), std::to_string(work_b.rows()))};
  }
  std::size_t const same = result.order ? std::min(result.order->row, rows) : rows;
  for (NumberColumn const& column : size_columns) {
    compare_numbers(column, work_a, work_b, same, result.size);
  }
  result.start_apart = largest_apart(work_a.start, work_b.start, same);
  result.duration_apart = largest_apart(work_a.duration, work_b.duration, same);
  result.memory = compare_states(a.memory, b.memory);
  return result;
}

}  // namespace stagecraft
