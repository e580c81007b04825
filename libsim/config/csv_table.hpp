#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// A cell of a CSV file and where it begins.
struct CsvCell {
  std::string text;  ///< without the quotes around it
  int line = 0;      ///< from 1
  int column = 0;    ///< from 1, in bytes
};

/// The header and the rows of a CSV text. All rows have as many cells as the header.
///
/// Only where rows begin is stored beside the text, so that a file with a million rows takes little
/// more memory than its bytes. Threads may share an object.
/// Source: RFC 4180. Lines may also end with LF alone, a byte order mark is skipped, and so are
/// empty lines unless the table has one column.
class CsvTable {
 public:
  /// `origin` names the file in messages.
  /// \throws ConfigError  if the text is not a table: not UTF-8, quotes that RFC 4180 does not
  ///     allow, no header, no rows, or rows with more or fewer cells than the header.
  CsvTable(std::string text, std::string const& origin);

  std::vector<CsvCell> const& header() const { return header_; }
  std::size_t rows() const { return rows_.size(); }
  /// The cells of a row, as many as the header has. Pre: row < rows()
  std::vector<CsvCell> row(std::size_t row) const;
  Place place_of(CsvCell const& cell) const { return {origin_, cell.line, cell.column}; }

 private:
  struct RowStart {
    std::size_t offset = 0;
    int line = 0;
  };

  void check_header() const;

  std::shared_ptr<std::string const> origin_;
  std::string text_;
  std::vector<CsvCell> header_;
  std::vector<RowStart> rows_;
};

/// The bytes of a file. \throws ConfigError  if it is a folder or cannot be read.
std::string read_data_text(std::filesystem::path const& path);

}  // namespace stagecraft
