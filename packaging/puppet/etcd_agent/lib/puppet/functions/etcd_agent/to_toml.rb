# frozen_string_literal: true

# @summary Renders a hash as TOML 1.0.
#
# Keys are sorted, so the text depends only on the values. What TOML cannot express is refused, and the error names the
# key.
Puppet::Functions.create_function(:'etcd_agent::to_toml') do
  # @param data The hash. Its values are strings, integers, floats, booleans, arrays and hashes.
  # @return [String] the text
  # @example The configuration of the agent
  #   etcd_agent::to_toml({ 'backup' => { 'interval' => '15m', 'retention' => { 'daily' => 7 } } })
  dispatch :to_toml do
    param 'Hash', :data
    return_type 'String'
  end

  def to_toml(data)
    blocks = []
    append([], data, blocks)
    blocks.join("\n")
  end

  # Appends the text of a table and of the tables in it.
  def append(path, table, blocks)
    table.each_key do |key|
      refuse(path + [key.to_s], "the key is #{kind(key)}, not a string: quote it") unless key.is_a?(String)
    end
    tables, values = table.sort.partition { |_, value| value.is_a?(Hash) }
    lines = values.map { |key, item| "#{key_text(key, path)} = #{value_text(path + [key], item)}\n" }
    # A table that only has tables needs no header of its own.
    lines.unshift("[#{name_of(path)}]\n") unless path.empty? || (lines.empty? && !tables.empty?)
    blocks << lines.join unless lines.empty?
    tables.each { |key, item| append(path + [key], item, blocks) }
  end

  def value_text(path, value)
    case value
    when true, false then value.to_s
    when String then string_text(value, path)
    when Integer
      # TOML's integers have 64 bits.
      refuse(path, "#{value} has more than 64 bits") unless value.between?(-2**63, 2**63 - 1)
      value.to_s
    when Array then "[#{value.map { |item| value_text(path, item) }.join(', ')}]"
    when Hash # in an array
      pairs = value.sort.map { |key, item| "#{key_text(key, path)} = #{value_text(path + [key], item)}" }
      pairs.empty? ? '{}' : "{ #{pairs.join(', ')} }"
    else
      finite = value.is_a?(Float) && value.finite?
      finite ? value.to_s : refuse(path, "#{kind(value)} cannot be written as TOML")
    end
  end

  def string_text(text, path)
    text = text.encode('UTF-8')
    refuse(path, 'the text is not valid Unicode') unless text.valid_encoding?
    short = { '"' => '\\"', '\\' => '\\\\', "\b" => '\\b', "\t" => '\\t', "\n" => '\\n', "\f" => '\\f', "\r" => '\\r' }
    # What a basic string cannot contain as it is.
    escaped = text.gsub(%r{["\\\u0000-\u001f\u007f]}) { |char| short[char] || format('\\u%04X', char.ord) }
    "\"#{escaped}\""
  rescue EncodingError
    refuse(path, 'the text is not valid Unicode')
  end

  def key_text(key, path)
    key.match?(%r{\A[A-Za-z0-9_-]+\z}) ? key : string_text(key, path)
  end

  # The dotted name of a key, as in the agent's own errors.
  def name_of(path)
    path.map { |key| key_text(key, []) }.join('.')
  end

  def kind(value)
    value.nil? || value == :undef ? 'null' : "a value of type #{value.class.name.split('::').last}"
  end

  def refuse(path, why)
    raise Puppet::Error, "#{name_of(path)}: #{why}"
  end
end
