#include "libsim/config/csv_table.hpp"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "libsim/config/opening.hpp"
#include "libsim/config/text_encoding.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

Problem problem_at(Place const& place, std::string found, std::string accepted) {
  Problem problem;
  problem.place = place;
  problem.found = std::move(found);
  problem.accepted = std::move(accepted);
  problem.stands_alone = true;
  return problem;
}

[[noreturn]] void refuse(Place const& place, std::string found, std::string accepted) {
  std::vector<Problem> problems;
  problems.push_back(problem_at(place, std::move(found), std::move(accepted)));
  throw ConfigError{std::move(problems)};
}

/// Reads the records of a text one after the other. Between two calls it is at the start of a
/// record, or at the end of the text.
class RecordReader {
 public:
  RecordReader(std::string_view text,
               std::shared_ptr<std::string const> const& origin,
               std::size_t offset,
               int line)
      : text_{text}, origin_{origin}, at_{offset}, line_start_{offset}, line_{line} {}

  std::size_t offset() const { return at_; }
  int line() const { return line_; }
  bool is_at_end() const { return at_ == text_.size(); }

  /// Reads a record into `cells`, whose memory is used again. Pre: not is_at_end()
  /// \throws ConfigError  for quotes that are not as RFC 4180 has them.
  void read(std::vector<CsvCell>& cells) {
    std::size_t count = 0;
    do {
      if (count == cells.size()) cells.emplace_back();
      read_cell(cells[count++]);
    } while (take(','));
    cells.resize(count);
    end_line();
  }

 private:
  bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char c) {
    if (!is_at(c)) return false;
    ++at_;
    return true;
  }
  /// Whether a cell without quotes ends at such a character, or must not have it.
  static bool may_end_cell(char c) { return c == ',' || c == '\n' || c == '\r' || c == '"'; }
  bool is_at_line_end() const {
    return at_ == text_.size() || text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n";
  }
  int column() const { return static_cast<int>(at_ - line_start_) + 1; }

  Place here() const { return {origin_, line_, column()}; }

  void end_line() {
    if (is_at_end()) return;
    take('\r');
    ++at_;  // the line feed, see is_at_line_end()
    ++line_;
    line_start_ = at_;
  }

  void read_cell(CsvCell& cell) {
    cell.text.clear();
    cell.line = line_;
    cell.column = column();
    if (is_at('"')) {
      read_quoted(cell.text);
      if (!is_at(',') && !is_at_line_end()) {
        refuse(here(), "text behind the quote that ends a cell",
               "a comma or the end of the line; a quote inside quotes is written twice");
      }
      return;
    }
    std::size_t const begin = at_;
    while (at_ < text_.size() && !may_end_cell(text_[at_])) ++at_;
    if (is_at('"')) {
      refuse(here(), "a quote inside a cell that does not begin with one",
             "the whole cell in quotes, with each quote inside written twice");
    }
    if (!is_at(',') && !is_at_line_end()) {
      refuse(here(), "a carriage return without a line feed", "lines that end with LF or CRLF");
    }
    cell.text = text_.substr(begin, at_ - begin);
  }

  void read_quoted(std::string& cell) {
    Place const opening = here();
    ++at_;
    while (true) {
      if (is_at_end()) refuse(opening, "a quote that no other ends", "a second quote");
      if (take('"') && !is_at('"')) return;
      char const c = text_[at_++];
      cell += c;
      if (c == '\n') {
        ++line_;
        line_start_ = at_;
      }
    }
  }

  std::string_view text_;
  std::shared_ptr<std::string const> const& origin_;
  std::size_t at_;
  std::size_t line_start_;
  int line_;
};

bool is_blank_line(std::vector<CsvCell> const& cells) {
  return cells.size() == 1 && cells.front().text.empty();
}

std::string cells_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " cell" : " cells");
}

}  // namespace

CsvTable::CsvTable(std::string text, std::string const& origin)
    : origin_{std::make_shared<std::string const>(origin)}, text_{std::move(text)} {
  if (text_.starts_with(byte_order_mark)) text_.erase(0, byte_order_mark.size());
  if (auto const bad = find_bad_text(text_)) {
    refuse({origin_, bad->line, bad->column}, bad->found, "text in UTF-8");
  }
  RecordReader reader{text_, origin_, 0, 1};
  while (!reader.is_at_end() && (header_.empty() || is_blank_line(header_))) reader.read(header_);
  check_header();
  Diagnostics diagnostics;
  std::vector<CsvCell> cells;
  while (!reader.is_at_end()) {
    RowStart const start{reader.offset(), reader.line()};
    reader.read(cells);
    if (is_blank_line(cells) && header_.size() > 1) continue;
    rows_.push_back(start);
    if (cells.size() == header_.size()) continue;
    diagnostics.add(problem_at({origin_, start.line, 1}, cells_text(cells.size()),
                               cells_text(header_.size()) + ", one per column of the header"));
  }
  diagnostics.throw_if_any();
  if (rows_.empty()) {
    refuse({origin_, header_.front().line, 1}, "a header without rows",
           "at least one row below the header");
  }
}

void CsvTable::check_header() const {
  if (header_.empty() || is_blank_line(header_)) {
    refuse({origin_, 1, 1}, "an empty file", "CSV with a header and rows below it");
  }
  std::string const& first = header_.front().text;
  for (char const separator : {';', '\t'}) {
    if (header_.size() > 1 || first.find(separator) == std::string::npos) continue;
    refuse(place_of(header_.front()),
           separator == ';' ? "semicolons between cells" : "tabs between cells", "commas");
  }
}

std::vector<CsvCell> CsvTable::row(std::size_t row) const {
  std::vector<CsvCell> cells;
  cells.reserve(header_.size());
  RecordReader{text_, origin_, rows_[row].offset, rows_[row].line}.read(cells);
  return cells;
}

std::string read_data_text(std::filesystem::path const& path) {
  Place const place{std::make_shared<std::string const>(path.string())};
  constexpr char const* accepted = "a CSV file";
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse(place, "a folder", accepted);
  errno = 0;
  std::ifstream stream{path, std::ios::binary};
  if (!stream) {
    refuse(place, "a file that cannot be opened" + why_not_opened(path, errno), accepted);
  }
  std::string text{std::istreambuf_iterator<char>{stream}, {}};
  if (stream.bad()) refuse(place, "a file that cannot be read", accepted);
  return text;
}

}  // namespace stagecraft
