#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"

namespace stagecraft {

/// A line of any width, which may name plans by their rows: only by those that a reader sees. Empty
/// if it has nothing to say of these.
class PlanRemark {
 public:
  /// One that names no row.
  explicit PlanRemark(std::string text) : text_{std::move(text)} {}
  /// What it says if the first so many rows are shown.
  explicit PlanRemark(std::function<std::string(std::size_t)> of_rows)
      : of_rows_{std::move(of_rows)} {}

  /// Keeps this remark on the screen even if there is no room for all remarks.
  void keep() { is_kept_ = true; }
  bool is_kept() const { return is_kept_; }

  std::string text(std::size_t rows) const { return of_rows_ ? of_rows_(rows) : text_; }

 private:
  std::string text_;
  std::function<std::string(std::size_t)> of_rows_;
  bool is_kept_ = false;
};

/// What to know of the best plans of an answer: what matters most comes first. The answer must
/// outlive it. Pre: some plan fits.
std::vector<PlanRemark> plan_remarks(PlanAnswer const& answer, bool is_whole);

/// The part of it about what else was searched on a cluster, and what was not: plans that may be as
/// fast, other schedules, bounds. Pre: some plan of it fits.
std::vector<PlanRemark> search_remarks(ClusterAnswer const& cluster, bool is_whole);

/// Why intervals do not say how sure a comparison of clusters is.
inline constexpr char const* comparison_remark =
    "an interval is of one machine: how far two machines err apart, nobody measured";

/// What was searched on a cluster, and for how long: a line, and more if `is_whole`.
std::string searched_text(ClusterAnswer const& cluster, bool is_whole);

/// What all plans leave free, for a heading.
std::string room_text(std::vector<ClusterAnswer> const& clusters);

}  // namespace stagecraft
