#include "apps/stagecraft/plan/plan_table.hpp"

#include <algorithm>
#include <utility>

#include "apps/stagecraft/plan/plan_words.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

constexpr char const* recompute_heading = "recompute";

/// Adds the recompute policies behind the columns of a table, as far as there is room for them, or
/// else below its rows.
void add_recompute(TableColumns columns,
                   std::vector<std::string> const& texts,
                   int width,
                   PlanTable& table) {
  constexpr char const* below = "by stage:";
  constexpr std::size_t gap = 2;
  std::size_t const taken = width_of(columns.lines()) + gap;
  auto const wide = static_cast<std::size_t>(width);
  std::size_t const room = wide - std::min(wide, taken);
  bool const has_column = room >= columns_of(recompute_heading);
  auto const fits = [&](std::size_t row) { return has_column && columns_of(texts[row]) <= room; };
  if (has_column) {
    columns.add(recompute_heading, Align::left,
                [&](std::size_t row) { return fits(row) ? texts[row] : std::string{below}; });
  }
  std::vector<std::string> const lines = columns.lines();
  table.heading = lines.front();
  for (std::size_t row = 0; row < texts.size(); ++row) {
    std::string text = lines[row + 1] + "\n";
    if (!fits(row)) {
      std::string const policy = has_column ? texts[row] : "recompute " + texts[row];
      text += "    " + wrapped(policy, width - 4, 4);
    }
    table.rows.push_back(std::move(text));
  }
}

/// The table with one line per plan.
void make_lines(std::vector<ShownPlan> const& plans,
                std::vector<std::size_t> const& numbers,
                TableStyle const& style,
                PlanTable& table) {
  auto const wide = static_cast<std::size_t>(style.width);
  for (Expendable const least :
       {Expendable::flops, Expendable::peak, Expendable::causal, Expendable::split, Expendable::mfu,
        Expendable::recompute, Expendable::daily, Expendable::days, Expendable::none}) {
    auto [columns, legend] = plan_columns(plans, numbers, style, least);
    if (least <= Expendable::recompute) {
      columns.add(recompute_heading, Align::left,
                  [&](std::size_t row) { return common_recompute(plans[row]->config); });
    }
    std::vector<std::string> const lines = columns.lines();
    if (width_of(lines) > wide && least != Expendable::none) continue;
    bool const has_kinds =
        least <= Expendable::recompute && std::ranges::any_of(plans, [](ShownPlan const& plan) {
          return common_recompute(plan->config).find('/') != std::string::npos;
        });
    if (has_kinds) legend.emplace_back("recompute A/B: of some stages A, of others B (--all)");
    table.legend = std::move(legend);
    table.common = columns.common();
    table.heading = lines.front();
    for (std::size_t row = 1; row < lines.size(); ++row) table.rows.push_back(lines[row] + "\n");
    return;
  }
}

/// Whether stages of a plan have policies of their own.
bool has_own_policies(ShownPlan const& plan) {
  std::vector<RecomputePolicy> const& policies = plan->config.recompute;
  return std::ranges::any_of(
      policies, [&](RecomputePolicy const& policy) { return policy != policies.front(); });
}

/// The table with the policies of all stages.
void make_paragraphs(std::vector<ShownPlan> const& plans,
                     std::vector<std::size_t> const& numbers,
                     TableStyle const& style,
                     PlanTable& table) {
  auto const wide = static_cast<std::size_t>(style.width);
  Expendable least = Expendable::flops;
  while (least < Expendable::mfu &&
         width_of(plan_columns(plans, numbers, style, least).columns.lines()) > wide) {
    least = static_cast<Expendable>(static_cast<int>(least) + 1);
  }
  auto [columns, legend] = plan_columns(plans, numbers, style, least);
  std::vector<std::string> recompute;
  recompute.reserve(plans.size());
  for (ShownPlan const& plan : plans) recompute.push_back(recompute_text(plan->config));
  table.legend = std::move(legend);
  table.common = columns.common();
  add_recompute(std::move(columns), recompute, style.width, table);
}

}  // namespace

PlanTable plan_table(std::vector<ShownPlan> const& plans,
                     std::vector<std::size_t> const& numbers,
                     TableStyle const& style) {
  PlanTable table;
  bool const has_stages = style.has_stages && std::ranges::any_of(plans, has_own_policies);
  has_stages ? make_paragraphs(plans, numbers, style, table)
             : make_lines(plans, numbers, style, table);
  explain_recompute(plans, table.legend);
  if (!table.common.empty()) {
    table.common = (plans.size() > 1 ? "all with " : "with ") + table.common + "\n";
  }
  return table;
}

std::string legend_text(std::vector<std::string> const& parts) {
  std::vector<std::string> once;
  for (std::string const& part : parts) {
    if (std::ranges::find(once, part) == once.end()) once.push_back(part);
  }
  return "(" + joined(once, "; ") + ")\n";
}

}  // namespace stagecraft
