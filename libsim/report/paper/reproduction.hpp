#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace stagecraft {

/// One number of the paper and our prediction.
struct ReproductionRow {
  std::string model;                  ///< "22B", "175B", "530B", "1T"
  std::string case_name;              ///< e.g. "full", "present", "baseline"
  std::string quantity;               ///< with its unit, e.g. "iteration_seconds"
  std::optional<int> stage{};         ///< only in figures over stages
  std::optional<double> published{};  ///< absent if the paper gives no number
  double predicted = 0;
  std::optional<double> executed{};  ///< absent if it was not executed, or not looked for

  /// Whether it is a share (MFU, an overhead), whose error is given in points instead of percent.
  bool is_share() const;
  /// (predicted / published - 1) in percent.
  std::optional<double> error_percent() const;
  /// predicted - published in percentage points; absent if it is not a share.
  std::optional<double> error_points() const;
};

/// Absolute errors over the rows with a published number; 0 if there is none.
struct ErrorSummary {
  double mean = 0;
  double largest = 0;
};

/// What no file of a folder with executed results has.
struct NotExecuted {
  std::string what;
  std::string plan;  ///< the fingerprint by which a file would be found
  int ranks = 0;     ///< that it takes
};

/// One table or figure of the paper.
struct Reproduction {
  std::string name;   ///< e.g. "table5"
  std::string title;  ///< what it shows, for people
  std::vector<ReproductionRow> rows{};
  bool has_executed = false;         ///< whether executed numbers were looked for
  std::vector<std::string> notes{};  ///< the sources of executed numbers
  std::vector<NotExecuted> missing{};

  /// Adds a row that has neither a stage nor an executed number.
  void add(std::string model,
           std::string case_name,
           std::string quantity,
           std::optional<double> published,
           double predicted);
  ErrorSummary errors_percent() const;
  /// Absent if a row is not a share.
  std::optional<ErrorSummary> errors_points() const;
};

std::string to_text(Reproduction const& reproduction);
std::string to_csv(Reproduction const& reproduction);
/// {"schema": "stagecraft.reproduction/1", "table5": [rows], ..., "errors": {"table5":
/// {"mean_percent", "max_percent"}, ...}}. Tables of shares also have `error_points` in each row,
/// and `mean_points` and `max_points`, which are those of to_text().
nlohmann::ordered_json to_json(std::vector<Reproduction> const& reproductions);

}  // namespace stagecraft
