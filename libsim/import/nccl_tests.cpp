#include "libsim/import/nccl_tests.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

#include "libsim/config/problem.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr std::array collective_names{std::pair{"all_reduce", OpKind::all_reduce},
                                      std::pair{"all_gather", OpKind::all_gather},
                                      std::pair{"reduce_scatter", OpKind::reduce_scatter}};

std::vector<std::string> words_of(std::string const& line) {
  std::istringstream stream{line};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  // srun --label and mpirun --tag-output put the number of the task before each line.
  if (words.size() > 1 && words.front().size() > 1 && words.front().back() == ':' &&
      parse_number<int>(std::string_view{words.front()}.substr(0, words.front().size() - 1))) {
    words.erase(words.begin());
  }
  return words;
}

/// One line of a run's table: the columns before and those of the run out of place.
struct Measurement {
  std::int64_t size = 0;
  std::string reduction;
  double microseconds = 0;
  double bus_ratio = 0;  ///< bus bandwidth over algorithm bandwidth; 0 if the latter is
  std::string wrong;
};

std::optional<Measurement> measurement_of(std::vector<std::string> const& words) {
  constexpr std::size_t columns = 9;  // size count type redop root time algbw busbw #wrong
  if (words.size() < columns) return std::nullopt;
  auto const size = parse_number<std::int64_t>(words[0]);
  auto const count = parse_number<std::int64_t>(words[1]);
  auto const time = parse_number<double>(words[5]);
  auto const algorithm = parse_number<double>(words[6]);
  auto const bus = parse_number<double>(words[7]);
  if (!size || !count || !time || !algorithm || !bus) return std::nullopt;
  return Measurement{*size, words[3], *time, *algorithm > 0 ? *bus / *algorithm : 0, words[8]};
}

/// The collective that `measurements` sum with: a ring all-reduce has twice the ratio of a
/// reduce-scatter.
std::optional<OpKind> guessed_kind(std::vector<Measurement> const& measurements, int ranks) {
  Measurement const& last = measurements.back();
  double const share = static_cast<double>(ranks - 1) / ranks;
  constexpr double tolerance = 0.05;
  if (last.reduction == "none" || ranks < 2) return std::nullopt;
  if (std::abs(last.bus_ratio - 2 * share) < tolerance) return OpKind::all_reduce;
  if (std::abs(last.bus_ratio - share) < tolerance) return OpKind::reduce_scatter;
  return std::nullopt;
}

/// Collects times from any number of logs of nccl-tests, one call of read() for each. A log may
/// hold several runs; which collective a run is follows from its bus bandwidth if the caller did
/// not give it. Nothing is averaged before finish(), which ends the reader's life.
class LogReader {
 public:
  explicit LogReader(std::optional<OpKind> kind) : given_kind_{kind} {}

  void read(NcclTestsLog const& log) {
    origin_ = std::make_shared<std::string const>(log.origin);
    start_run(0);
    std::istringstream stream{log.text};
    int number = 0;
    for (std::string line; std::getline(stream, line);) read_line(line, ++number);
    finish_run();
  }

  NcclTestsImport finish() && {
    NcclTestsImport result{.tables = {}, .notes = std::move(notes_)};
    for (auto const& [shape, sizes] : times_) {
      if (sizes.size() < 2) {
        result.notes.push_back(text_of(shape) +
                               ": one size only, left out; at least two are needed");
        continue;
      }
      auto& table = result.tables[shape];
      for (auto const& [size, times] : sizes) {
        double sum = 0;
        for (double const time : times) sum += time;
        table.push_back({Bytes{size}, Seconds{sum / static_cast<double>(times.size()) / 1e6}});
      }
    }
    if (result.tables.empty() && diagnostics_.problems().empty()) {
      first_line_ = 0;
      report("no times that can be used",
             "what all_reduce_perf, all_gather_perf or reduce_scatter_perf of nccl-tests prints, "
             "with two sizes or more");
    }
    diagnostics_.throw_if_any();
    return result;
  }

 private:
  static std::string text_of(CollectiveShape const& shape) {
    return std::string{name_of(shape.kind)} + ' ' + std::to_string(shape.nodes) + 'x' +
           std::to_string(shape.per_node);
  }

  void start_run(int line) {
    program_.clear();
    hosts_.clear();
    measurements_.clear();
    zeros_ = 0;
    first_line_ = line;
  }

  void read_line(std::string const& line, int number) {
    std::vector<std::string> const words = words_of(line);
    auto const has = [&](std::size_t at, std::string_view word) {
      return at < words.size() && words[at] == word;
    };
    if (has(1, "Collective") && has(3, "starting:") && words.size() > 4) {
      finish_run();
      start_run(number);
      program_ = words[4];
    } else if (has(1, "nThread")) {  // the first line of older versions
      if (!measurements_.empty()) {
        finish_run();
        start_run(number);
      }
    } else if (has(0, "#") && has(1, "Rank") && has(7, "on") && words.size() > 8) {
      if (has(2, "0") && zeros_++ > 0) return;
      ++hosts_[words[8]];
    } else if (auto measurement = measurement_of(words)) {
      if (measurements_.empty() && first_line_ == 0) first_line_ = number;
      measurements_.push_back(std::move(*measurement));
    }
  }

  void report(std::string found, std::string accepted) {
    Problem problem;
    problem.place = {origin_, std::max(1, first_line_), 1};
    problem.found = std::move(found);
    problem.accepted = std::move(accepted);
    problem.stands_alone = true;
    diagnostics_.add(std::move(problem));
  }

  void note(std::string const& text) {
    notes_.push_back(to_string(Place{origin_, std::max(1, first_line_), 1}) + ": " + text);
  }

  /// The kind of the run; nullopt if it cannot be used, which is then said.
  std::optional<OpKind> kind_of_run(int ranks) {
    if (!program_.empty()) {
      for (auto const& [name, kind] : collective_names) {
        if (program_.find(std::string{name} + "_perf") != std::string::npos) return kind;
      }
      note(program_ +
           " is left out: only all_reduce_perf, all_gather_perf and "
           "reduce_scatter_perf have a use");
      return std::nullopt;
    }
    auto const kind = given_kind_ ? given_kind_ : guessed_kind(measurements_, ranks);
    if (!kind) report("a run that does not say its collective", "--collective KIND");
    return kind;
  }

  void finish_run() {
    if (measurements_.empty()) return;
    int ranks = 0;
    for (auto const& [host, count] : hosts_) ranks += count;
    if (zeros_ > 1) {
      report("every process as rank 0", "nccl-tests built with MPI=1, so that all ranks take part");
      return;
    }
    if (ranks < 2) {
      report(ranks == 0 ? "no list of ranks" : "one rank",
             "the lines `# Rank 0 Group 0 Pid ... on HOST device ...` of two ranks or more");
      return;
    }
    int const per_node = hosts_.begin()->second;
    for (auto const& [host, count] : hosts_) {
      if (count == per_node) continue;
      report(std::to_string(per_node) + " ranks on " + hosts_.begin()->first + " and " +
                 std::to_string(count) + " on " + host,
             "as many ranks on every node");
      return;
    }
    auto const kind = kind_of_run(ranks);
    if (!kind) return;
    auto& sizes = times_[{*kind, static_cast<int>(hosts_.size()), per_node}];
    for (Measurement const& measured : measurements_) {
      if (measured.size < 1 || measured.microseconds <= 0) continue;
      if (parse_number<double>(measured.wrong).value_or(0) > 0) {
        note(std::to_string(measured.size) + " bytes are left out: " + measured.wrong +
             " values were wrong");
        continue;
      }
      sizes[measured.size].push_back(measured.microseconds);
    }
  }

  std::optional<OpKind> given_kind_;
  Diagnostics diagnostics_;
  std::vector<std::string> notes_;
  std::map<CollectiveShape, std::map<std::int64_t, std::vector<double>>> times_;

  std::shared_ptr<std::string const> origin_;
  // Of the run that is being read:
  std::string program_;
  std::map<std::string, int> hosts_;
  std::vector<Measurement> measurements_;
  int zeros_ = 0;
  int first_line_ = 0;
};

}  // namespace

NcclTestsImport import_nccl_tests(std::vector<NcclTestsLog> const& logs,
                                  std::optional<OpKind> kind) {
  LogReader reader{kind};
  for (NcclTestsLog const& log : logs) reader.read(log);
  return std::move(reader).finish();
}

}  // namespace stagecraft
