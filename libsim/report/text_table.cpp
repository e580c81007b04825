#include "libsim/report/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <sstream>

namespace stagecraft {

namespace {

void pad(std::string& line, std::string const& cell, std::size_t width, Align align) {
  std::string const space(width - std::min(width, columns_of(cell)), ' ');
  if (align == Align::right) line += space;
  line += cell;
  if (align == Align::left) line += space;
}

}  // namespace

std::string wrapped(std::string const& text, int width, std::size_t indent) {
  std::istringstream words{text};
  std::string result;
  std::size_t column = 0;
  for (std::string word; words >> word; column += columns_of(word)) {
    if (column > 0 && column + 1 + columns_of(word) > static_cast<std::size_t>(width)) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
  }
  return result + '\n';
}

std::string wrapped_lines(std::string const& text, int width, std::size_t indent) {
  std::istringstream lines{text};
  std::string result;
  for (std::string line; std::getline(lines, line);) result += wrapped(line, width, indent);
  return result;
}

std::string joined(std::vector<std::string> const& texts, std::string const& separator) {
  std::string all;
  for (std::size_t i = 0; i < texts.size(); ++i) all += (i > 0 ? separator : "") + texts[i];
  return all;
}

std::string readable_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '_'; }, ' ');
  return name;
}

std::size_t columns_of(std::string const& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void TextTable::add_row(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::text() const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_of(columns_[i].heading);
    for (auto const& row : rows_) {
      if (!row.empty()) width = std::max(width, columns_of(row[i]));
    }
    widths.push_back(width);
    total += width + (i == 0 ? 0 : 2);
  }
  std::string text;
  auto const add_line = [&](auto cell_at) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) line += "  ";
      pad(line, cell_at(i), widths[i], columns_[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line([&](std::size_t i) -> std::string const& { return columns_[i].heading; });
  for (auto const& row : rows_) {
    if (row.empty()) {
      text += std::string(total, '-') + '\n';
    } else {
      add_line([&](std::size_t i) -> std::string const& { return row[i]; });
    }
  }
  return text;
}

std::string decimals(double value, int count) { return fmt::format("{:.{}f}", value, count); }

std::string signed_decimals(double value, int count) {
  return fmt::format("{:+.{}f}", value, count);
}

std::string gibibytes(std::int64_t bytes) { return in_unit({"GiB", 1 << 30}, bytes); }

ByteUnit unit_for(std::int64_t largest) {
  constexpr std::array units{ByteUnit{"GiB", 1 << 30}, ByteUnit{"MiB", 1 << 20},
                             ByteUnit{"KiB", 1 << 10}};
  for (ByteUnit const& unit : units) {
    if (largest >= unit.bytes / 10) return unit;
  }
  return units.back();
}

std::string in_unit(ByteUnit const& unit, std::int64_t bytes) {
  return decimals(static_cast<double>(bytes) / static_cast<double>(unit.bytes), 2);
}

std::string size_text(std::int64_t bytes) {
  ByteUnit const unit = unit_for(std::abs(bytes));
  return in_unit(unit, bytes) + " " + std::string{unit.name};
}

TimeUnit unit_for(SimTime longest) {
  constexpr std::array units{TimeUnit{"s", std::chrono::seconds{1}},
                             TimeUnit{"ms", std::chrono::milliseconds{1}},
                             TimeUnit{"us", std::chrono::microseconds{1}}};
  for (TimeUnit const& unit : units) {
    if (longest >= unit.time / 10) return unit;
  }
  return units.back();
}

std::string in_unit(TimeUnit const& unit, SimTime time) {
  return decimals(static_cast<double>(time.count()) / static_cast<double>(unit.time.count()), 3);
}

std::string time_text(SimTime time) {
  TimeUnit const unit = unit_for(time);
  return in_unit(unit, time) + " " + std::string{unit.name};
}

std::vector<std::string> parts_in_unit(TimeUnit const& unit, std::vector<SimTime> const& parts) {
  SimTime const digit = unit.time / 1000;
  auto const digits_of = [digit](SimTime part) {  // rounded down, a negative part too
    return part / digit - (part % digit < SimTime{0} ? 1 : 0);
  };
  auto const rest_of = [&](SimTime part) { return part - digits_of(part) * digit; };
  std::vector<std::size_t> by_rest(parts.size());
  std::iota(by_rest.begin(), by_rest.end(), std::size_t{0});
  std::stable_sort(by_rest.begin(), by_rest.end(), [&](std::size_t a, std::size_t b) {
    return rest_of(parts[a]) > rest_of(parts[b]);
  });
  SimTime const sum = std::accumulate(parts.begin(), parts.end(), SimTime{0});
  std::int64_t missing = (sum + digit / 2) / digit;
  for (SimTime const part : parts) missing -= digits_of(part);
  std::vector<std::string> texts(parts.size());
  for (std::size_t const i : by_rest) {
    texts[i] = in_unit(unit, (digits_of(parts[i]) + (missing-- > 0 ? 1 : 0)) * digit);
  }
  return texts;
}

}  // namespace stagecraft
