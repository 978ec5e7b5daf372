//! Draws a plan or a history for looking at it and for the browser test.
//!
//! `cargo run -p memviz --example picture -- SOURCE OUT...` where SOURCE is a CSV (`id,lower,upper,size[,offset[,values]]`,
//! plain or gzip; without offsets the buffers are placed first fit), `synthetic:N`, one of the named plans of `plans.rs`,
//! `run:N` (a history of N events) or one of the named histories of `histories.rs`, and each OUT ends in `.html`, `.svg`
//! or `.png`. `--theme light|dark`, `--size WxH`, `--scale N`, `--capacity N`, `--color-by WHAT`, `--from N`, `--to N`.

mod histories;
mod plans;

use std::{error::Error, fs::File, io::BufWriter, time::Instant};

use lifetime::Bytes;
use memviz::{ColorBy, HistoryOptions, PictureOptions, Theme};
use records::History;

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = PictureOptions::default();
    let mut history_options = HistoryOptions::default();
    let mut capacity = None;
    let (mut source, mut outputs) = (None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--theme" => options.theme = Theme::from_name(&value()?).ok_or("no such theme")?,
            "--size" => {
                let size = value()?;
                let (width, height) = size.split_once('x').ok_or("--size takes WxH")?;
                (options.width, options.height) = (width.parse()?, height.parse()?);
            }
            "--scale" => options.scale = value()?.parse()?,
            "--capacity" => capacity = Some(Bytes(value()?.parse()?)),
            "--color-by" => history_options.color_by = ColorBy::from_name(&value()?).ok_or("no such choice")?,
            "--from" => history_options.from = Some(value()?.parse()?),
            "--to" => history_options.to = Some(value()?.parse()?),
            _ if source.is_none() => source = Some(argument),
            _ => outputs.push(argument),
        }
    }
    let source = source.ok_or("usage: picture SOURCE OUT...")?;
    if let Some(history) = histories::from_source(&source) {
        history_options.picture = options;
        return draw_history(&history, &history_options, &outputs);
    }
    let mut plan = plans::from_source(&source)?;
    if capacity.is_some() {
        plan.capacity = capacity;
    }
    for path in outputs {
        let begun = Instant::now();
        let mut out = BufWriter::new(File::create(&path)?);
        match path.rsplit('.').next() {
            Some("html") => memviz::write_html(&plan, &options, &mut out)?,
            Some("svg") => memviz::write_svg(&plan, &options, &mut out)?,
            Some("png") => memviz::write_png(&plan, &options, &mut out)?,
            _ => return Err(format!("{path}: not .html, .svg or .png").into()),
        }
        out.into_inner()?;
        report(&path, &format!("{} buffers", plan.buffers.len()), begun)?;
    }
    Ok(())
}

fn draw_history(history: &History, options: &HistoryOptions, outputs: &[String]) -> Result<(), Box<dyn Error>> {
    for path in outputs {
        let begun = Instant::now();
        let mut out = BufWriter::new(File::create(path)?);
        match path.rsplit('.').next() {
            Some("html") => memviz::write_history_html(history, options, &mut out)?,
            Some("svg") => memviz::write_history_svg(history, options, &mut out)?,
            Some("png") => memviz::write_history_png(history, options, &mut out)?,
            _ => return Err(format!("{path}: not .html, .svg or .png").into()),
        }
        out.into_inner()?;
        let events: usize = history.devices.iter().map(|device| device.events.len()).sum();
        report(path, &format!("{events} events"), begun)?;
    }
    Ok(())
}

fn report(path: &str, what: &str, begun: Instant) -> Result<(), Box<dyn Error>> {
    let size = std::fs::metadata(path)?.len();
    println!("{path}: {what}, {size} bytes, {:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}
