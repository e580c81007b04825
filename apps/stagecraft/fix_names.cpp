#include "apps/stagecraft/fix_names.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/config/did_you_mean.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/search/search_names.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_names.hpp"
#include "libsim/units/split_text.hpp"

namespace stagecraft {
namespace {

[[noreturn]] void refuse_fix(std::string const& text, std::string const& accepted) {
  throw CommandLineError{"--fix", "'" + text + "'", accepted};
}

/// A --fix: the whole of it, and its values.
struct FixText {
  std::string const& text;
  std::string const& list;
};

template <auto member>
void read_numbers(FixText const& fix, SearchFilter& filter) {
  for (std::string const& word : list_items(fix.list)) {
    (filter.*member)
        .push_back(whole_number("--fix " + fix.text, word, 1, std::numeric_limits<int>::max()));
  }
}

template <auto member>
void read_switch(FixText const& fix, SearchFilter& filter) {
  for (std::string const& word : list_items(fix.list)) {
    if (word != "true" && word != "false") refuse_fix(fix.text, "true or false");
    (filter.*member).push_back(word == "true");
  }
}

/// `instead`: what else the option takes.
template <typename Enum>
void read_words(FixText const& fix, std::vector<Enum>& to, std::string const& instead = {}) {
  for (std::string const& word : list_items(fix.list)) {
    auto const value = value_named<Enum>(word);
    if (!value) {
      std::string const names = accepted_names<Enum>() + (instead.empty() ? "" : ", or " + instead);
      refuse_fix(fix.text, names + did_you_mean_of_list(word, names));
    }
    to.push_back(*value);
  }
}

void read_distributed_optimizer(FixText const& fix, SearchFilter& filter) {
  for (std::string const& word : list_items(fix.list)) {
    if (word != "true" && word != "false") refuse_fix(fix.text, "true or false");
    filter.sharding.push_back(sharding_of(word == "true").kind);
  }
}

/// The word any is all kinds.
void read_sharding(FixText const& fix, SearchFilter& filter) {
  std::vector<std::string> const words = list_items(fix.list);
  if (words != std::vector<std::string>{"any"}) return read_words(fix, filter.sharding, "any");
  for (auto const& [kind, name] : EnumNames<ShardingKind>::all) filter.sharding.push_back(kind);
}

/// "gpipe, 1f1b, interleaved, zb_h1": the schedules that are searched.
std::string searched_kinds() {
  std::string names;
  for (auto const& [kind, name] : EnumNames<ScheduleKind>::all) {
    if (is_searched(kind)) names += (names.empty() ? "" : ", ") + std::string{name};
  }
  return names;
}

void read_schedules(FixText const& fix, SearchFilter& filter) {
  read_words(fix, filter.schedule);
  if (!std::ranges::all_of(filter.schedule, [](ScheduleKind kind) { return is_searched(kind); })) {
    refuse_fix(fix.text,
               searched_kinds() + " (`stagecraft explain` says what others would give to a plan)");
  }
}

void read_p2p(FixText const& fix, SearchFilter& filter) { read_words(fix, filter.p2p); }

void read_recompute(FixText const& fix, SearchFilter& filter) { read_words(fix, filter.recompute); }

template <auto member>
std::int64_t number_of(ShapeChoice const& shape, ScheduleChoice const& schedule) {
  if constexpr (requires { shape.*member; }) {
    return shape.*member;
  } else {
    return schedule.*member;
  }
}

std::string switch_words() { return "true, false"; }

/// A name of --fix that takes values.
struct FixName {
  std::string_view name;
  std::string_view key;  ///< of run files: what the search decides
  void (*read)(FixText const&, SearchFilter&) = nullptr;
  /// Its value in a legal run; null if its values are not numbers.
  std::int64_t (*number)(ShapeChoice const&, ScheduleChoice const&) = nullptr;
  std::string (*words)() = nullptr;  ///< its values, if they are words, with ", " between them
};

using Filter = SearchFilter;
constexpr std::array fix_names{
    FixName{"tensor", "parallel.tensor", read_numbers<&Filter::tensor>,
            number_of<&ShapeChoice::tensor>},
    FixName{"pipeline", "parallel.pipeline", read_numbers<&Filter::pipeline>,
            number_of<&ScheduleChoice::pipeline>},
    FixName{"data", "parallel.data", read_numbers<&Filter::data>, number_of<&ScheduleChoice::data>},
    FixName{"interleave", "parallel.interleave", read_numbers<&Filter::interleave>,
            number_of<&ScheduleChoice::interleave>},
    FixName{"micro", "batch", read_numbers<&Filter::micro>, number_of<&ShapeChoice::micro>},
    FixName{"context", "parallel.context", read_numbers<&Filter::context>,
            number_of<&ShapeChoice::context>},
    FixName{"expert", "parallel.expert", read_numbers<&Filter::expert>,
            number_of<&ShapeChoice::expert>},
    FixName{"expert_tensor", "parallel.expert_tensor", read_numbers<&Filter::expert_tensor>,
            number_of<&ShapeChoice::expert_tensor>},
    FixName{"sequence", "parallel.sequence", read_switch<&Filter::sequence>, nullptr, switch_words},
    FixName{"sharding", "sharding", read_sharding, nullptr, accepted_names<ShardingKind>},
    FixName{"distributed_optimizer", "memory.distributed_optimizer", read_distributed_optimizer,
            nullptr, switch_words},
    FixName{"schedule", "schedule.kind", read_schedules, nullptr, searched_kinds},
    FixName{"p2p", "schedule.p2p", read_p2p, nullptr, accepted_names<P2p>},
    FixName{"recompute", "recompute", read_recompute, nullptr, accepted_names<RecomputeKind>},
};

FixName const* find_name(std::string_view name) {
  auto const* const found = std::ranges::find(fix_names, name, &FixName::name);
  return found == fix_names.end() ? nullptr : found;
}

/// The names with commas between them, and `before_last` before the last.
std::string listed_names(std::string const& before_last) {
  std::string text;
  for (FixName const& fix : fix_names) {
    bool const is_last = &fix == &fix_names.back();
    text += (text.empty() ? "" : is_last ? before_last : ", ") + std::string{fix.name};
  }
  return text;
}

std::string name_in(std::string const& text) { return text.substr(0, text.find('=')); }

/// "--fix tensor=1,2 --fix pipeline=1": what was meant by one option with several names, or empty.
std::string one_name_each(std::string const& text) {
  std::string options;
  int names = 0;
  for (std::string const& item : list_items(text)) {
    bool const has_name = item.find('=') != std::string::npos;
    if (has_name && ++names > 1 && !find_name(name_in(item)) && item != "layout=even") return {};
    options += (has_name ? (names > 1 ? " --fix " : "--fix ") : ",") + item;
  }
  return names > 1 ? options : std::string{};
}

}  // namespace

bool has_fix_name(std::string const& text) {
  return find_name(name_in(text)) != nullptr || text.starts_with("layout=");
}

void read_fix(std::string const& text, SearchFilter& filter) {
  std::size_t const equals = text.find('=');
  std::string const list = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (list_items(list).empty()) {
    refuse_fix(text, "NAME=VALUE or NAME=VALUE,VALUE, with --fix again for each other name: " +
                         listed_names(", ") + ", layout");
  }
  if (std::string const meant = one_name_each(text); !meant.empty()) {
    refuse_fix(text, "one name for each --fix: " + meant);
  }
  if (FixName const* const fix = find_name(name_in(text))) {
    fix->read({text, list}, filter);
  } else if (text == "layout=even") {
    filter.only_even = true;
  } else {
    std::vector<std::string> names{"layout"};
    for (FixName const& known : fix_names) names.emplace_back(known.name);
    std::string const meant = did_you_mean(name_in(text), names);
    refuse_fix(text, listed_names(", ") + " = values, or layout=even" +
                         (meant.empty() ? "; what is not searched is held by --set, as in --set "
                                          "parallel.overlap_gradients=true"
                                        : meant));
  }
}

std::string fix_description() {
  return "only plans with these values of " + listed_names(" or ") + " (" +
         accepted_names<RecomputeKind>() + "), or layout=even; may be repeated";
}

std::vector<std::string> fix_beginnings() {
  std::vector<std::string> beginnings;
  for (FixName const& fix : fix_names) {
    beginnings.push_back(std::string{fix.name} + "=");
    if (fix.words == nullptr) continue;
    std::string const words = fix.words();
    for (std::string_view const word : split_text(words, ", ")) {
      beginnings.push_back(std::string{fix.name} + "=" + std::string{word});
    }
  }
  beginnings.emplace_back("layout=even");
  return beginnings;
}

bool is_searched(std::string_view key) {
  if (key == "schedule.p2p") return false;  // --set holds it as --fix p2p does
  if (key == "parallel" || key == "schedule") return true;
  auto const decides = [key](std::string_view searched) {
    return key == searched || key.starts_with(std::string{searched} + ".");
  };
  return std::ranges::any_of(fix_names, [&](FixName const& fix) { return decides(fix.key); }) ||
         decides("schedule.group") || decides("layout");
}

std::string legal_numbers(SearchRequest const& request, std::string const& text) {
  FixName const* const fix = find_name(name_in(text));
  if (fix == nullptr || fix->number == nullptr) return "";
  std::set<std::int64_t> values;
  for (ShapeChoice const& shape : shape_choices(request)) {
    for (ScheduleChoice const& schedule : schedule_choices(request, shape)) {
      bool const has_plans = !whole_shardings(request, shape, schedule).empty() ||
                             !unit_shardings(request, shape, schedule).empty();
      if (has_plans) values.insert(fix->number(shape, schedule));
    }
  }
  std::string numbers;
  for (std::int64_t const value : values) {
    numbers += (numbers.empty() ? ": " : ", ") + std::to_string(value);
  }
  return numbers;
}

}  // namespace stagecraft
